"""Run RLScore's own tests of ranking on rankwise, through a thin shim.

RLScore's sources are not part of this repository; with those of its last release unpacked::

    python tests/oracles/rlscore_own_tests.py rlscore-0.8.1

The modules below take the place of ``rlscore`` in this process, and its test files are run as they
are. Nothing here is imported by other tests, since the sources are needed.
"""

import pathlib
import runpy
import sys
import types
import unittest

import numpy as np

from rankwise import (
    AUC,
    Concordance,
    ConditionalRankRLS,
    Gaussian,
    InvalidInputError,
    Linear,
    LinearRankRLS,
    Polynomial,
    RankRLS,
    RankRLSCV,
    evaluate,
)

FILES = [
    "test_learner/test_query_rankrls.py",
    "test_learner/test_global_rankrls.py",
    "test_learner/test_cg_rankrls.py",
    "test_learner/test_rankrls_with_pairwise_preferences.py",
    "test_learner/test_kronecker_rls.py",
    "test_measure/test_cindex.py",
    "test_measure/test_auc.py",
]


def kernel_of(name, gamma=1.0, coef0=0.0, degree=2, **_):
    """Return a kernel by RLScore's name of it."""
    if name == "GaussianKernel":
        return Gaussian(gamma=gamma)
    return Polynomial(degree, gamma=gamma, coef0=coef0) if name == "PolynomialKernel" else Linear()


class KernelOfRows:
    """A kernel with rows, as RLScore has them."""

    def __init__(self, X, **options):
        self.X, self.kernel = np.asarray(X), kernel_of(type(self).__name__, **options)

    def getKM(self, X):  # noqa: N802 - RLScore's name
        return self.kernel(np.asarray(X), self.X)


class GaussianKernel(KernelOfRows):
    def __init__(self, X, gamma=1.0):
        super().__init__(X, gamma=gamma)


class PolynomialKernel(KernelOfRows):
    pass


class LinearKernel(KernelOfRows):
    pass


class Learner:
    """RankRLS with ties kept, alpha = regparam, and RLScore's names of what was learned."""

    weight = "items"

    def __init__(
        self, X, Y, qids=None, regparam=1.0, kernel="LinearKernel", basis_vectors=None, **options
    ):
        self.X, self.Y = np.asarray(X, dtype=float), np.asarray(Y, dtype=float)
        self.qid = None if qids is None else np.asarray(qids)
        self.name, self.basis, self.options = kernel, basis_vectors, options
        self.predictor = types.SimpleNamespace(predict=self.predict)
        self.solve(regparam)

    def ranker(self, alpha, kind=RankRLS, **more):
        return kind(alpha, ties="keep", query_weight=self.weight, **self.kernel, **more)

    def rows(self):
        """Return the features, and what the ranker is told about them."""
        self.kernel = {"kernel": kernel_of(self.name, **self.options)}
        if self.name == "PrecomputedKernel" and self.basis is None:
            self.kernel = {"kernel": "precomputed"}
        elif self.name == "PrecomputedKernel":  # features whose kernel is the given one
            self.kernel = {"kernel": Linear()}
            root = np.linalg.cholesky(np.asarray(self.basis))
            return np.linalg.solve(root, self.X.T).T
        return self.X

    def solve(self, regparam):
        self.regparam, Z = regparam, self.rows()
        more = {}
        if self.basis is not None and self.name != "PrecomputedKernel":
            more["basis"] = [
                int(np.argmin(np.abs(Z - b).sum(axis=1))) for b in np.asarray(self.basis)
            ]
        self.fitted = self.ranker(regparam, **more).fit(Z, self.Y, qid=self.qid)
        self._tell(Z)

    def _tell(self, Z):
        """Set W or A, as RLScore has them."""
        found = self.fitted
        if self.name == "PrecomputedKernel" and self.basis is not None:
            root = np.linalg.cholesky(np.asarray(self.basis))
            self.predictor.W = np.linalg.solve(root.T, found.coef_.T)
        elif self.name == "LinearKernel" and self.basis is None:
            self.predictor.W = np.squeeze(found.coef_.T)
        elif self.name == "LinearKernel":
            self.predictor.W = found.predictor_.rows.T @ found.dual_coef_
        else:
            self.predictor.A = self.predictor.W = found.dual_coef_

    def predict(self, X):
        X = np.asarray(X, dtype=float)
        return np.squeeze(self.fitted.predict(X))

    def holdout(self, indices):
        """Return held-out scores in closed form, with the mean of a refit.

        Items are compared inside a query only, so that rankwise leaves the mean open.
        """
        out = np.asarray(list(indices))
        if len({*out.tolist()}) < len(out) or (out < 0).any() or (out >= len(self.X)).any():
            raise IndexError("indices must be different rows")
        kept = np.delete(np.arange(len(self.X)), out)
        if self.qid is not None and np.isin(self.qid[kept], self.qid[out]).any():
            raise IndexError("indices must be whole queries")
        folds = [(kept, out), (out, kept)]
        Z = self.rows()
        held = np.full((len(self.X), *self.Y.shape[1:]), np.nan)
        for k in range(1 if self.Y.ndim == 1 else self.Y.shape[1]):
            y = self.Y if self.Y.ndim == 1 else self.Y[:, k]
            found = self.ranker([self.regparam], RankRLSCV, cv=folds).fit(Z, y, qid=self.qid)
            held.reshape(len(Z), -1)[:, k] = found.held_out_scores_
        refit = self.ranker(self.regparam)
        qid = None if self.qid is None else self.qid[kept]
        if self.kernel["kernel"] == "precomputed":
            plain = refit.fit(Z[np.ix_(kept, kept)], self.Y[kept], qid=qid)
            scores = plain.predict(Z[np.ix_(out, kept)])
        else:
            scores = refit.fit(Z[kept], self.Y[kept], qid=qid).predict(Z[out])
        scores, closed = np.asarray(scores), held[out]
        return closed - closed.mean(axis=0) + scores.mean(axis=0)

    def leave_pair_out(self, start, end):
        pairs = [self.holdout([i, j]) for i, j in zip(start, end, strict=True)]
        return np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])


class QueryRankRLS(Learner):
    pass


class GlobalRankRLS(Learner):
    weight = "pairs"


class CGRankRLS(Learner):
    def solve(self, regparam):
        ranker = LinearRankRLS(regparam, ties="keep", tol=1e-10, max_iter=5000)
        self.fitted = ranker.fit(self.X, np.squeeze(self.Y), qid=self.qid)
        self.predictor.W = self.fitted.coef_


class OfPairs:
    """Comparisons; those of an item with itself say nothing and are refused by rankwise."""

    def __init__(self, X, pairs, regparam, kernel="LinearKernel", kind=RankRLS, **options):
        X, pairs = np.asarray(X), np.asarray(pairs)
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        if kind is RankRLS:
            options = {"kernel": kernel_of(kernel, **options)}
        else:
            options = {"tol": 1e-10, "max_iter": 5000}
        self.fitted = kind(regparam, **options).fit(X, pairs=pairs)
        self.predictor = types.SimpleNamespace(
            predict=lambda X: self.fitted.predict(np.asarray(X)),
            W=getattr(self.fitted, "coef_", None),
        )


def PPRankRLS(X, pairs_start_inds, pairs_end_inds, regparam=1.0, **options):  # noqa: N802
    pairs = np.column_stack([pairs_start_inds, pairs_end_inds])
    return OfPairs(X, pairs, regparam, **options)


def PCGRankRLS(X, train_preferences, regparam=1.0, **_):  # noqa: N802
    return OfPairs(X, train_preferences, regparam, kind=LinearRankRLS)


class KronRLS:
    """Conditional ranking; the regression of KronRLS is out of scope."""

    def __init__(self, X1, X2, Y, regparam=1.0):
        self.X1, self.X2 = np.asarray(X1), np.asarray(X2)
        self.Y = np.asarray(Y).reshape((len(self.X1), len(self.X2)), order="F")

    def solve_linear_conditional_ranking(self, regparam):
        self.fitted = ConditionalRankRLS(regparam).fit(self.X1, self.X2, self.Y)

    def predict(self, X1, X2):
        if not hasattr(self, "fitted"):
            raise unittest.SkipTest("regression on pairs is out of scope")
        return self.fitted.predict(np.asarray(X1), np.asarray(X2)).ravel(order="F")


def rated(measure, y, scores):
    """Return the mean of a measure over columns."""
    y, scores = (np.asarray(v, dtype=float).reshape(len(v), -1) for v in (y, scores))
    values = [evaluate(a, b, None, measure).mean[0] for a, b in zip(y.T, scores.T, strict=True)]
    if np.isnan(values).any():
        raise InvalidInputError("no pair to judge by")
    return float(np.mean(values))


def auc(y, scores):
    """Return the AUC of labels 1 and -1; rankwise takes others as well."""
    if not np.isin(y, (1, -1)).all():
        raise InvalidInputError("labels must be 1 and -1")
    return rated(AUC, y, scores)


def modules():
    """Return what stands for RLScore's modules."""
    learner = {"QueryRankRLS": QueryRankRLS, "GlobalRankRLS": GlobalRankRLS, "CGRankRLS": CGRankRLS}
    content = {
        "rlscore": {},
        "rlscore.learner": {**learner, "KronRLS": KronRLS, "PPRankRLS": PPRankRLS},
        "rlscore.learner.cg_rankrls": {"PCGRankRLS": PCGRankRLS, "CGRankRLS": CGRankRLS},
        "rlscore.learner.kron_rls": {"KronRLS": KronRLS},
        "rlscore.learner.query_rankrls": {"QueryRankRLS": QueryRankRLS},
        "rlscore.learner.rls": {"RLS": None},
        "rlscore.learner.rankrls_with_pairwise_preferences": {"PPRankRLS": PPRankRLS},
        "rlscore.kernel": {
            "GaussianKernel": GaussianKernel,
            "PolynomialKernel": PolynomialKernel,
            "LinearKernel": LinearKernel,
        },
        "rlscore.measure": {
            "cindex": lambda y, p: rated(Concordance, y, p),
            "auc": auc,
        },
        "rlscore.measure.cindex_measure": {"cindex": lambda y, p: rated(Concordance, y, p)},
        "rlscore.measure.auc_measure": {"auc": auc},
        "rlscore.measure.measure_utilities": {"UndefinedPerformance": InvalidInputError},
        "rlscore.utilities": {},
    }  # fmt: skip
    for name, names in content.items():
        module = types.ModuleType(name)
        module.__dict__.update(names)
        module.__path__ = []
        yield name, module


def main(source):
    """Run the files, and say what passed."""
    np.mat = np.asmatrix  # noqa: NPY201 - the files were written for NumPy 1
    sys.modules.update(modules())
    folder = pathlib.Path(source, "rlscore", "test")
    suite = unittest.TestSuite()
    for file in FILES:
        found = runpy.run_path(str(folder / file), run_name=file)
        for kind in found.values():
            if isinstance(kind, type) and issubclass(kind, unittest.TestCase):
                suite.addTests(unittest.defaultTestLoader.loadTestsFromTestCase(kind))
    result = unittest.TextTestRunner(buffer=True).run(suite)
    sys.exit(not result.wasSuccessful())


if __name__ == "__main__":
    main(sys.argv[1])
