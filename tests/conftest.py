"""What all tests need."""

import signal

import pytest
import sklearn

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


@pytest.fixture
def lean_scikit_learn():
    """scikit-learn that can be loaded without pandas and SciPy's optimisers."""
    if tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9):
        pytest.skip("scikit-learn before 1.9 uses pandas and scipy.optimize while it loads")
