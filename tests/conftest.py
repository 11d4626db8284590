"""What all tests need."""

import signal

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Shells start background jobs so, and children inherit it: tests of Ctrl-C would wait for ever
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def torch_on_one_thread():
    """Small matrices on many threads that wait for each other take minutes on a busy machine."""
    torch = pytest.importorskip("torch", reason="the extra 'gpu' (torch) is not installed")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
