"""Predicting for long needs no more memory, and works from threads, forks and other processes."""

import gc
import mmap
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import joblib
import numpy as np
import pytest

import rankwise
from problems import problem
from rankwise import Gaussian, RankRLS, RankRLSCV

P = problem(seed=0)
N_PREDICTIONS = max(20_000, min(1_000_000, int(os.environ.get("RANKWISE_FUZZ", "0"))))


def resident_pages():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1])


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs Linux's /proc")
@pytest.mark.parametrize("kernel", ["linear", Gaussian(0.5)], ids=["linear", "gaussian"])
def test_small_predictions_do_not_grow_memory(kernel):
    ranker = RankRLS(kernel=kernel).fit(P.X, P.y, P.qid)
    rows = P.X[:3]
    expected = ranker.predict(rows)
    for _ in range(2_000):
        ranker.predict(rows)
    gc.collect()
    before = resident_pages()
    for _ in range(N_PREDICTIONS // 2):
        found = ranker.predict(rows)
    gc.collect()
    np.testing.assert_array_equal(found, expected)
    assert (resident_pages() - before) * mmap.PAGESIZE < 4e6


def test_threads_predict_and_fit_side_by_side():
    ranker = RankRLS(kernel=Gaussian(0.5)).fit(P.X, P.y, P.qid)
    expected, found, failures = ranker.predict(P.X), [], []

    def work():
        try:
            found.append(ranker.predict(P.X))
            found.append(RankRLS(kernel=Gaussian(0.5)).fit(P.X, P.y, P.qid).predict(P.X))
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    for scores in found:
        np.testing.assert_allclose(scores, expected, rtol=1e-10)


FIRST_USE = """
import threading
import numpy as np
import rankwise
rng = np.random.default_rng(0)
X, y = rng.normal(size=(30, 3)), rng.normal(size=30)
found = []
def work():
    found.append(rankwise.RankRLS().fit(X, y).predict(X).tolist())
threads = [threading.Thread(target=work) for _ in range(6)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
assert len(found) == 6 and all(f == found[0] for f in found)
print("done")
"""


def test_threads_may_be_the_first_to_use_the_package():
    out = subprocess.run(
        [sys.executable, "-c", FIRST_USE], capture_output=True, text=True, check=True
    )
    assert out.stdout == "done\n"


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")
def test_forked_processes_fit_what_the_parent_fits():
    expected = RankRLSCV([0.1, 1.0]).fit(P.X, P.y, P.qid).predict(P.X)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        found = pool.map(fitted_scores, range(4))
    for scores in found:
        np.testing.assert_allclose(scores, expected, rtol=1e-10)


def fitted_scores(_):
    return RankRLSCV([0.1, 1.0]).fit(P.X, P.y, P.qid).predict(P.X)


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_joblib_fits_what_one_process_fits(backend):
    rankers = [RankRLS(alpha) for alpha in (0.1, 1.0, 10.0)]
    with joblib.parallel_config(backend=backend, n_jobs=2):
        fits = joblib.Parallel()(joblib.delayed(fitted)(ranker) for ranker in rankers)
    for ranker, scores in zip(rankers, fits, strict=True):
        np.testing.assert_allclose(scores, fitted(ranker), rtol=1e-10)


def fitted(ranker):
    return ranker.fit(P.X, P.y, P.qid).predict(P.X)


INTERRUPTED = """
import signal, sys
import numpy as np
import rankwise
from scipy.sparse import csr_array
rng = np.random.default_rng(0)
R = csr_array(rng.integers(0, 6, size=(400, 300)).astype(float))
rankwise.RankingFactorization(2, max_iter=1, random_state=0).fit(R[:20])
sys.stdout.write("ready\\n")
sys.stdout.flush()
ranker = rankwise.RankingFactorization(20, max_iter=10_000, tol=1e-12, random_state=0).fit(R)
sys.stdout.write("stopped\\n" if ranker.n_iter_ < 10_000 else "not stopped\\n")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT for processes")
def test_ctrl_c_ends_a_long_factorisation():
    command = [sys.executable, "-c", INTERRUPTED]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(2.0)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        try:
            out, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    if process.returncode == 0:  # the usual case; on a busy machine it may not have begun
        assert out == "stopped\n"
        assert "Stopped by Ctrl-C" in errors
    else:
        assert "KeyboardInterrupt" in errors


FULL_DISK = """
import resource, signal, sys
import numpy as np
import rankwise
rng = np.random.default_rng(0)
ranker = rankwise.RankRLS(kernel="gaussian").fit(rng.normal(size=(200, 9)), rng.normal(size=200))
ranker.save(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    ranker.save(sys.argv[1])
except OSError as error:
    print(error.__class__.__name__, error.strerror)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit of file sizes")
def test_a_full_disk_is_an_os_error_and_keeps_the_model_that_was_there(tmp_path):
    path = tmp_path / "m.model"
    out = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(path)], capture_output=True, text=True, check=True
    )
    assert out.stdout == "OSError File too large\n", out.stderr
    assert os.listdir(tmp_path) == ["m.model"]
    assert rankwise.load(path).n_features_in_ == 9
