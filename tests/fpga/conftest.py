import pytest

from tests.fpga.nextpnr import install, reached


@pytest.fixture
def native(tmp_path, monkeypatch):
    """A folder, on PATH, of native tools; a test may change them."""
    install(tmp_path / "bin", reached(40))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/bin:/usr/bin")
    return tmp_path / "bin"


@pytest.fixture
def nextpnr(native):
    """Sets how nextpnr ends, lines of a shell with $report and $seed; returns its path."""
    def behave(text):
        install(native, text)
        return str(native / "nextpnr-ice40")
    return behave
