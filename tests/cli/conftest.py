import json
from hashlib import sha256

import pytest

from fbnn_hw.cli import _common, main, verbs
from fbnn_hw.nn import checkpoint
from sim.conftest import pytest_configure, pytest_unconfigure  # noqa: F401
from tests import schemas, strategies


@pytest.fixture
def cli(capsys):
    """Runs a command line in this process: (exit code, stdout, stderr).  What it prints with --json is checked by its verb's schema."""
    def run(*argv):
        capsys.readouterr()
        code = main([str(word) for word in argv])
        out, err = capsys.readouterr()
        if "--json" in argv and argv[0] in verbs():
            schemas.check(argv[0], out)
        return code, out, err

    return run


@pytest.fixture
def answer(cli):
    """Runs a command line with --json that must succeed: the object it prints."""
    def run(*argv):
        code, out, err = cli(*argv, "--json")
        assert code == 0, err
        return json.loads(out)

    return run


@pytest.fixture
def refused(cli, monkeypatch):
    """Runs a command line that must fail: (exit code, the one line on stderr).  A slow machine gets no progress bar."""
    monkeypatch.setattr(_common, "PROGRESS_DELAY_S", 1e9)

    def run(*argv):
        code, out, err = cli(*argv)
        assert code and not out and err.count("\n") == 1 and "Traceback" not in err, (code, out, err)
        return code, err.strip()

    return run


@pytest.fixture
def rewrite():
    """Gives a file of a generated folder another content, under a right hash."""
    def write(path, content):
        data = content if isinstance(content, bytes) else content.encode()
        path.write_bytes(data)
        manifest = json.loads(path.with_name("manifest.json").read_text())
        manifest["files"][path.name] = sha256(data).hexdigest()
        path.with_name("manifest.json").write_text(json.dumps(manifest))

    return write


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """(path, Network) of a small checkpoint with random weights and CIFAR-10's class names."""
    from fbnn_hw.ir.models import CIFAR10, vgg

    network = strategies.fill(vgg("tiny", CIFAR10, width=1 / 16, latent=64, hidden=16), 1)
    path = tmp_path_factory.mktemp("model") / "tiny.pt"
    checkpoint.save(path, network)
    return path, network
