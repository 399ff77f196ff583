import pytest
import torch


@pytest.fixture(autouse=True, scope="package")
def one_thread():
    """Runs that are compared bit for bit use as many threads as each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
