"""Dense, naive, obviously right versions of everything rankwise computes fast; NumPy only."""

import re
from fractions import Fraction
from itertools import combinations, pairwise, permutations, product

import numpy as np
from scipy.linalg import qr, solve_triangular
from scipy.optimize import linear_sum_assignment, minimize, minimize_scalar
from scipy.special import ndtr
from scipy.stats import rankdata

# --- preference graphs and RankRLS: pair by pair ------------------------------------------------


def score_pairs(y, qid, cost, ties, query_weight, sample_weight=None):
    """List (i, j, target, weight) of every pair, as docs/guide/alpha.rst defines them."""
    n_items = len(y)
    s = np.ones(n_items) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    pairs = []
    for q in dict.fromkeys(qid):
        rows = [i for i in range(n_items) if qid[i] == q]
        found = []
        for a, i in enumerate(rows):
            for j in rows[a + 1 :]:
                gap = y[i] - y[j]
                if gap == 0 and ties == "drop":
                    continue
                target = np.sign(gap) if cost == "unit" else gap
                weight = s[i] * s[j] * (gap**-2.0 if cost == "relative" else 1.0)
                found.append((i, j, target, weight))
        number = sum(s[i] * s[j] for i, j, _, _ in found)
        mass = sum(s[i] for i in rows)
        if query_weight == "items":
            omega = 1 / mass if mass > 0 else 0.0
        elif query_weight == "pairs":
            omega = 1.0
        elif query_weight == "equal":
            omega = 1 / number if number > 0 else 0.0
        else:
            omega = query_weight[q]
        pairs += [(i, j, z, omega * w) for i, j, z, w in found]
    return pairs


def compared_pairs(pairs, margin, weight, cost):
    """List (i, j, target, weight) of comparisons, as [PTA09] (20) to (22) define the costs."""
    listed = []
    for (i, j), z, w in zip(np.asarray(pairs).tolist(), margin, weight, strict=True):
        if cost == "unit":
            listed.append((i, j, 1.0 if z > 0 else -1.0 if z < 0 else 0.0, w))
        else:
            listed.append((i, j, z, w / z**2 if cost == "relative" else w))
    return listed


def laplacian(pairs, n_items):
    """Return the dense Laplacian and right-hand side of weighted pairs."""
    L, r = np.zeros((n_items, n_items)), np.zeros(n_items)
    for i, j, z, w in pairs:
        e = np.zeros(n_items)
        e[i], e[j] = 1, -1
        L += w * np.outer(e, e)
        r += w * z * e
    return L, r


def fit_primal(X, L, r, alpha):
    """Minimise the cost over the weights of a linear function."""
    return np.linalg.solve(X.T @ L @ X + alpha * np.eye(X.shape[1]), X.T @ r)


def fit_dual(K, L, r, alpha):
    """Minimise the cost over kernel expansions."""
    return np.linalg.solve(L @ K + alpha * np.eye(len(K)), r)


def fit_least_squares(Z, pairs, alpha):
    """Minimise the cost over weights, one row per pair: no product squares the condition number.

    With the largest rows first and pivoted columns, rows of any size keep their digits.
    """
    first, second, target, weight = map(np.array, zip(*pairs, strict=True))
    n_features = Z.shape[1]
    rows = np.sqrt(weight)[:, None] * (Z[first] - Z[second])
    A = np.vstack([rows, np.sqrt(alpha) * np.eye(n_features)])
    b = np.concatenate([np.sqrt(weight) * target, np.zeros(n_features)])
    order = np.argsort(-np.abs(A).max(axis=1))
    Q, R, columns = qr(A[order], mode="economic", pivoting=True)
    w = np.empty(n_features)
    w[columns] = solve_triangular(R, Q.T @ b[order])
    return w


# --- measures: one query at a time, every order of tied items, every pair ---


def tied_orders(scores):
    """Return every order of the items by decreasing score."""
    blocks = [np.flatnonzero(scores == s) for s in np.unique(scores)[::-1]]
    choices = product(*(permutations(block) for block in blocks))
    return [[item for block in choice for item in block] for choice in choices]


def gain(y, rule):
    if rule == "linear":
        return y
    return 2.0**y - 1 if rule == "exponential" else np.array([rule[int(grade)] for grade in y])


def dcg(measure, ranked):
    gains = gain(ranked, measure.gain)[: measure.cutoff]
    return sum(g / np.log2(place + 1) for place, g in enumerate(gains, start=1))


def ndcg(measure, ranked):
    best = dcg(measure, np.sort(ranked)[::-1])
    return dcg(measure, ranked) / best if best > 0 else np.nan


def plain_eru(measure, ranked):
    h, d = measure.half_life, measure.neutral
    return sum(2 ** ((1 - i) / (h - 1)) * max(y - d, 0) for i, y in enumerate(ranked, start=1))


def eru(measure, ranked):
    if measure.normalize == "none":
        return plain_eru(measure, ranked)
    best = plain_eru(measure, np.sort(ranked)[::-1])
    return plain_eru(measure, ranked) / best if best > 0 else np.nan


def plain_utility(measure, ranked):
    return sum(a * b for a, b in zip(measure.discounts, gain(ranked, measure.gain), strict=False))


def utility(measure, ranked):
    if measure.normalize == "none":
        return plain_utility(measure, ranked)
    best = plain_utility(measure, np.sort(ranked)[::-1])
    return plain_utility(measure, ranked) / best if best > 0 else np.nan


def wta(measure, ranked):
    return float(ranked[0] == ranked.max())


def precision(measure, ranked):
    hits, k = ranked >= measure.relevant, measure.cutoff
    norms = {"cutoff": k, "items": min(k, len(hits)), "best": min(k, hits.sum())}
    norm = norms[measure.normalize]
    return hits[:k].sum() / norm if norm > 0 else np.nan


def average_precision(measure, ranked):
    hits, k = ranked >= measure.relevant, measure.cutoff or len(ranked)
    if not hits.any():
        return np.nan
    total = sum(hits[: p + 1].mean() for p in range(min(k, len(hits))) if hits[p])
    return total / (min(hits.sum(), k) if measure.normalize == "best" else hits.sum())


def reciprocal_rank(measure, ranked):
    places = np.flatnonzero(ranked >= measure.relevant) + 1
    if len(places) == 0:
        return np.nan
    return 1 / places[0] if places[0] <= (measure.cutoff or len(ranked)) else 0.0


def recall(measure, ranked):
    hits = ranked >= measure.relevant
    return hits[: measure.cutoff].sum() / hits.sum() if hits.any() else np.nan


def expected_reciprocal_rank(measure, ranked):
    chances, going, total = (2.0**ranked - 1) / 2.0**measure.max_grade, 1.0, 0.0
    for p, chance in enumerate(chances[: measure.cutoff], start=1):
        total += going * chance / p
        going *= 1 - chance
    return total if chances.any() else np.nan


def pair_sums(y, scores, weight):
    """Return the weights of all pairs with different y, of the swapped, tied and s-apart ones."""
    total = swapped = tied = apart = 0.0
    for i, j in combinations(range(len(y)), 2):
        w, agreement = weight[i] * weight[j], np.sign(y[i] - y[j]) * np.sign(scores[i] - scores[j])
        apart += w * (scores[i] != scores[j])
        if y[i] != y[j]:
            total, swapped, tied = (
                total + w,
                swapped + w * (agreement < 0),
                tied + w * (not agreement),
            )
    return total, swapped, tied, apart


def disagreement(measure, y, scores, weight):
    total, swapped, tied, _ = pair_sums(y, scores, weight)
    wrong = swapped + {"half": 0.5, "one": 1.0}[measure.ties] * tied
    if measure.tied_grades == "half":
        for i, j in combinations(range(len(y)), 2):
            if y[i] == y[j]:
                total += weight[i] * weight[j]
                wrong += 0.5 * weight[i] * weight[j] * (scores[i] != scores[j])
    return wrong / total if total else np.nan


def concordance(measure, y, scores, weight):
    total, swapped, tied, _ = pair_sums(y, scores, weight)
    return (total - swapped - tied / 2) / total if total else np.nan


def auc(measure, y, scores, weight):
    return concordance(measure, (y >= measure.relevant) * 1.0, scores, weight)


def kendall_tau(measure, y, scores, weight):
    total, swapped, tied, apart = pair_sums(y, scores, weight)
    if total == 0:
        return np.nan
    return (total - 2 * swapped - tied) / np.sqrt(total * apart) if apart else 0.0


def spearman(measure, y, scores, weight):
    if np.ptp(y) == 0:
        return np.nan
    return np.corrcoef(rankdata(y), rankdata(scores))[0, 1] if np.ptp(scores) else 0.0


OF_ORDER = {
    "DCG": dcg,
    "NDCG": ndcg,
    "ERU": eru,
    "Utility": utility,
    "WTA": wta,
    "Precision": precision,
    "AP": average_precision,
    "RR": reciprocal_rank,
    "Recall": recall,
    "ERR": expected_reciprocal_rank,
}
OF_PAIRS = {
    "Disagreement": disagreement,
    "Concordance": concordance,
    "AUC": auc,
    "KendallTau": kendall_tau,
    "Spearman": spearman,
}


def query_value(measure, y, scores, weight=None):
    """Return the value of a measure for one query."""
    weight = np.ones(len(y)) if weight is None else weight
    if measure.name in OF_PAIRS:
        value = OF_PAIRS[measure.name](measure, y, scores, weight)
    else:
        rate = OF_ORDER[measure.name]
        if measure.ties in ("input", "reverse"):
            step = 1 if measure.ties == "input" else -1
            order = sorted(range(len(y))[::step], key=lambda item: -scores[item])
            value = rate(measure, y[order])
        else:
            summary = {"average": np.mean, "best": np.max, "worst": np.min}[measure.ties]
            value = summary([rate(measure, y[order]) for order in tied_orders(scores)])
    return {"skip": np.nan, "zero": 0.0, "one": 1.0}[measure.empty] if np.isnan(value) else value


# --- preference Gaussian processes: quadrature, one site at a time, and Monte Carlo ---------------


def difference_rows(pairs, n_items):
    """Return A with rows e_winner - e_loser."""
    return np.eye(n_items)[np.array(pairs)[:, 0]] - np.eye(n_items)[np.array(pairs)[:, 1]]


def tilted_by_quadrature(density, mean, variance):
    """Return log of the integral, mean and variance of density(s) N(s | mean, variance)."""
    x = np.linspace(-14.0, 14.0, 4001)
    s = mean + np.sqrt(variance) * x
    mass = density(s) * np.exp(-0.5 * x**2) / np.sqrt(2.0 * np.pi) * (x[1] - x[0])
    z = mass.sum()
    centre = (mass * s).sum() / z
    return np.log(z), centre, (mass * (s - centre) ** 2).sum() / z


def ep_by_quadrature(K, A, densities, n_passes=60):
    """Run expectation propagation, one site after the other, everything dense.

    Returns mean and covariance of the items, the log evidence, and the sites (tau, nu).
    """
    tau, nu = np.zeros((2, len(A)))
    for site in np.tile(np.arange(len(A)), n_passes):
        m, v = _cavity(K, A, tau, nu, site)
        _, centre, spread = tilted_by_quadrature(densities[site], m, v)
        tau[site], nu[site] = 1.0 / spread - 1.0 / v, centre / spread - m / v
    B = np.eye(len(K)) + K @ A.T @ np.diag(tau) @ A
    cov = np.linalg.solve(B, K)
    b = A.T @ nu
    log_evidence = -0.5 * np.linalg.slogdet(B)[1] + 0.5 * b @ cov @ b
    for site in range(len(A)):
        m, v = _cavity(K, A, tau, nu, site)
        gaussian = lambda s, t=tau[site], n=nu[site]: np.exp(n * s - 0.5 * t * s**2)  # noqa: E731
        log_evidence += tilted_by_quadrature(densities[site], m, v)[0]
        log_evidence -= tilted_by_quadrature(gaussian, m, v)[0]
    return cov @ b, cov, log_evidence, tau, nu


def _cavity(K, A, tau, nu, site):
    others = np.arange(len(A)) != site
    T = np.diag(tau * others)
    cov = np.linalg.solve(np.eye(len(K)) + K @ A.T @ T @ A, K)
    return A[site] @ cov @ (A.T @ (nu * others)), A[site] @ cov @ A[site]


def elliptical_slices(K, log_likelihood, n_chains, n_steps, rng):
    """Draw (n_steps, n_chains, n_items) from prior N(0, K) times likelihood, chains in parallel."""
    root = np.linalg.cholesky(K + 1e-10 * np.eye(len(K)))
    f = rng.standard_normal((n_chains, len(K))) @ root.T
    chain = []
    for _ in range(n_steps):
        other = rng.standard_normal(f.shape) @ root.T
        level = log_likelihood(f) + np.log(rng.random(n_chains))
        angle = rng.uniform(0.0, 2.0 * np.pi, n_chains)
        low, high, new, active = (
            angle - 2.0 * np.pi,
            angle.copy(),
            f.copy(),
            np.ones(n_chains, bool),
        )
        while active.any():
            turned = f * np.cos(angle)[:, None] + other * np.sin(angle)[:, None]
            new[active] = turned[active]
            active &= log_likelihood(turned) < level
            low, high = np.where(angle < 0, angle, low), np.where(angle >= 0, angle, high)
            angle = np.where(active, rng.uniform(low, high), angle)
        f = new
        chain.append(f)
    return np.array(chain)


# --- files -------------------------------------------------------------------------------------


def svmlight_items(text):
    """Read svmlight text as a list of (target, qid, {feature: value}, comment), by splitting it."""
    items = []
    for line in text.split("\n"):
        content, _, comment = line.partition("#")
        tokens = content.split()
        if tokens:
            pairs = [token.split(":") for token in tokens[1:]]
            qid = pairs.pop(0)[1] if pairs and pairs[0][0] == "qid" else None
            features = {int(feature): float(value) for feature, value in pairs}
            items.append((float(tokens[0]), qid, features, comment.strip(" \t\r")))
    return items


_NUMBER = rb"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
_SVMLIGHT_LINE = re.compile(
    rb"[ \t\r]*(?:(?P<target>%b)(?:[ \t\r]+qid:(?P<qid>[^ \t\r\n#]+))?"
    rb"(?P<features>(?:[ \t\r]+\d{1,9}:%b)*)[ \t\r]*)?(?:#(?P<comment>[^\n]*))?\n"
    % (_NUMBER, _NUMBER)
)


def svmlight_rows(text):
    """Return (line, target, qid, features, values, comment) of each row by a pattern for lines.

    None where a line does not match it.
    """
    rows, pos, line = [], 0, 0
    while pos < len(text):
        found = _SVMLIGHT_LINE.match(text, pos)
        if found is None:
            return None
        pos, line = found.end(), line + 1
        if found["target"] is not None:
            words = found["features"].replace(b":", b" ").split()
            features, values = [int(w) for w in words[::2]], [float(w) for w in words[1::2]]
            comment = (found["comment"] or b"").strip(b" \t\r")
            qid = found["qid"] or b""
            rows.append((line, float(found["target"]), qid, features, values, comment))
    return rows


# --- loss-augmented rankings -------------------------------------------------------------------


def values_by_position(scores, gains, decay, discounts):
    """Return what each item is worth at each position."""
    return np.outer(scores, decay) - np.outer(gains, discounts)


def greatest_assignment(V):
    """Return the greatest sum of V[item, position] over all assignments."""
    return V[linear_sum_assignment(V, maximize=True)].sum()


def greatest_diverse_assignment(V, sources, depth):
    """Return the greatest sum over all rankings whose first positions hold different sources."""
    best = -np.inf
    for ranking in permutations(range(len(V))):
        head = [sources[item] for item in ranking[:depth]]
        if len(set(head)) == len(head):
            best = max(best, sum(V[item, j] for j, item in enumerate(ranking)))
    return best


# --- structured learning to rank: every ranking written out ------------------------------------


def all_planes(gains, discounts, decay, target, sources=None, depth=0):
    """List (beta, loss) of all rankings of one query, those with different sources if given."""
    planes = []
    for ranking in permutations(range(len(gains))):
        head = [] if sources is None else [sources[item] for item in ranking[:depth]]
        if len(set(head)) == len(head):
            positions = np.argsort(ranking)
            loss = (discounts[target] - discounts[positions]) @ gains
            planes.append((decay[target] - decay[positions], loss))
    return planes


def structured_objective(w, C, blocks, base=0.0):
    """Return 1/2 |w - base|^2 + sum of C times slack; blocks list (X, weight, planes)."""
    slacks = [max(loss - beta @ (X @ w) for beta, loss in planes) for X, _, planes in blocks]
    return 0.5 * np.sum((w - base) ** 2) + C * np.dot([weight for _, weight, _ in blocks], slacks)


def structured_optimum(C, blocks, base):
    """Return the smallest objective, by a quadratic programme over weights and slacks."""
    n_features, n_queries = len(base), len(blocks)
    A, lower = [], []
    for q, (X, _, planes) in enumerate(blocks):
        for beta, loss in planes:
            A.append(np.concatenate([beta @ X, np.eye(n_queries)[q]]))
            lower.append(loss)
    A, lower = np.array(A), np.array(lower)
    cost = C * np.array([weight for _, weight, _ in blocks])
    solution = minimize(
        lambda z: 0.5 * np.sum((z[:n_features] - base) ** 2) + cost @ z[n_features:],
        np.concatenate(
            [
                base,
                np.full(
                    n_queries,
                    lower.max() + 1.0 + np.abs(A[:, :n_features]).max() * np.abs(base).sum(),
                ),
            ]
        ),
        jac=lambda z: np.concatenate([z[:n_features] - base, cost]),
        constraints={"type": "ineq", "fun": lambda z: A @ z - lower, "jac": lambda _: A},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    return structured_objective(solution.x[:n_features], C, blocks, base)


# --- large-margin ranking: every pair written out ------------------------------------------------


def winners_first(pairs):
    """Turn pairs (i, j, target, weight) so that no target is negative."""
    return [(i, j, z, w) if z >= 0 else (j, i, -z, w) for i, j, z, w in pairs]


def violations(pairs, f, threshold):
    """Sum the slacks above a threshold, less it: total, squares, slopes of both, Laplacian."""
    total, squares = 0.0, 0.0
    total_slope, half_squares_slope = np.zeros((2, len(f)))
    L = np.zeros((len(f), len(f)))
    for i, j, margin, c in pairs:
        excess = margin - (f[i] - f[j]) - threshold
        if excess > 0:
            e = np.zeros(len(f))
            e[i], e[j] = 1, -1
            total, squares = total + c * excess, squares + c * excess**2
            total_slope -= c * e
            half_squares_slope -= c * excess * e
            L += c * np.outer(e, e)
    return total, squares, total_slope, half_squares_slope, L


def svm_objective(pairs, X, w, C, power):
    """Return 1/2 |w|^2 + C times the sum of positive slacks to a power."""
    f = X @ w
    slacks = np.array([margin - (f[i] - f[j]) for i, j, margin, _ in pairs])
    return 0.5 * w @ w + C * np.array([c for *_, c in pairs]) @ np.maximum(slacks, 0.0) ** power


def svm_dual_objective(pairs, X, duals, C, power):
    """Return the dual objective: a lower bound for duals of 0 or more, in the hinge at most C c."""
    margins, c = np.array([(margin, c) for *_, margin, c in pairs]).T
    D = np.array([X[i] - X[j] for i, j, *_ in pairs])
    penalty = duals**2 / (4 * C * c) if power == 2 else 0.0
    return np.sum(duals * margins - penalty) - 0.5 * np.sum((duals @ D) ** 2)


def svm_quadratic_program(pairs, K, C, n_sweeps=2000):
    """Return the greatest dual objective of the hinge: one variable at a time, each set exactly."""
    first, second, margins, c = (np.array(column) for column in zip(*pairs, strict=True))
    D = K[:, first.astype(int)] - K[:, second.astype(int)]
    scores, duals = np.zeros(len(K)), np.zeros(len(margins))
    for p in np.tile(np.arange(len(margins)), n_sweeps):
        i, j = int(first[p]), int(second[p])
        slack = margins[p] - (scores[i] - scores[j])
        new = min(max(duals[p] + slack / (D[i, p] - D[j, p]), 0.0), C * c[p])
        scores, duals[p] = scores + (new - duals[p]) * D[:, p], new
    push = np.zeros(len(K))
    np.add.at(push, first.astype(int), duals)
    np.subtract.at(push, second.astype(int), duals)
    return duals @ margins - 0.5 * push @ K @ push


# --- ranking factorisation: every ranking of every user written out ----------------------------


def nearest_ideal(scores, gains, discounts, decay):
    """Return the positions without loss that agree best with the scores."""
    rankings = [np.argsort(ranking) for ranking in permutations(range(len(gains)))]
    worth = np.array([discounts[positions] @ gains for positions in rankings])
    agreement = np.array([decay[positions] @ scores for positions in rankings])
    return rankings[int(np.argmax(np.where(worth >= worth.max() - 1e-12, agreement, -np.inf)))]


def factorization_objective(U, V, bias, C, users):
    """Return C times all slacks plus half the squares; users list (items, gains, a, c)."""
    value = 0.5 * (np.sum(U**2) + np.sum(V**2) + np.sum(bias**2))
    for u, (items, *columns) in zip(U, users, strict=True):
        scores = V[items] @ u + bias[items]
        planes = all_planes(*columns, nearest_ideal(scores, *columns))
        value += C * max(loss - beta @ scores for beta, loss in planes)
    return value


def fit_exactly(X, y, kernel, alpha):
    """Return RankRLS's scores of all items minus that of the first, in rational numbers.

    One query of untied scores, cost "magnitude": (L K + alpha I) a = L y with L = I - 11'/n.
    """
    n = len(y)
    K = [[kernel(a, b) for b in X] for a in X]
    share = Fraction(1, n)
    M = [
        [K[i][j] - share * sum(K[p][j] for p in range(n)) + (alpha if i == j else 0)
         for j in range(n)] + [y[i] - share * sum(y)]
        for i in range(n)
    ]  # fmt: skip
    for i in range(n):
        pivot = next(p for p in range(i, n) if M[p][i] != 0)
        M[i], M[pivot] = M[pivot], M[i]
        M[i] = [v / M[i][i] for v in M[i]]
        for p in range(n):
            if p != i and M[p][i] != 0:
                factor = M[p][i]
                M[p] = [v - factor * w for v, w in zip(M[p], M[i], strict=True)]
    f = [sum(K[i][j] * M[j][n] for j in range(n)) for i in range(n)]
    return np.array([float(v - f[0]) for v in f])


def paired_log_likelihood(f, width, comparisons):
    """Add up the log-probabilities of (first, second, outcome, weight) rows, one by one."""
    total = 0.0
    for first, second, outcome, weight in comparisons:
        lead = f[first] - f[second]
        win, loss = 1 / (1 + np.exp(width - lead)), 1 / (1 + np.exp(width + lead))
        total += weight * np.log({1: win, -1: loss, 0: 1 - win - loss}[int(outcome)])
    return total


def choice_log_likelihood(f, choices):
    """Add up the log-probabilities of (set, chosen, sign) choices, one by one."""
    total = 0.0
    for offered, chosen, sign in choices:
        total += sign * f[chosen] - np.log(sum(np.exp(sign * f[item]) for item in offered))
    return total


# --- explanations: every order of replacing features --------------------------------------------


def shapley_values(score, x, base):
    """Average what each feature adds to the score over all orders of replacing base by x."""
    values, orders = np.zeros(len(x)), list(permutations(range(len(x))))
    for order in orders:
        row = np.array(base, dtype=float)
        before = score(row)
        for k in order:
            row[k] = x[k]
            after = score(row)
            values[k] += (after - before) / len(orders)
            before = after
    return values


# Features inside queries


def scaled_within_queries(X, qid, scale):
    """Scale one query and feature at a time, leaving out NaN."""
    out = np.array(X, dtype=float)
    for q in np.unique(qid):
        for j in range(out.shape[1]):
            rows = np.flatnonzero((qid == q) & ~np.isnan(X[:, j]))
            x = X[rows, j]
            if len(x) == 0:
                continue
            first, third = np.quantile(x, [0.25, 0.75])
            shift = {"min_max": x.min(), "standard": x.mean(), "robust": np.median(x)}.get(scale, 0)
            width = {
                "min_max": np.ptp(x),
                "standard": x.std(),
                "robust": third - first if third > first else np.ptp(x),
                "max_abs": np.abs(x).max(),
            }[scale]
            out[rows, j] = (x - shift) / width if width > 0 else 0.0
    return out


def ranks_within_queries(X, qid):
    """Rank one query and feature at a time: counts of smaller and equal values."""
    out = np.full(X.shape, np.nan)
    for q in np.unique(qid):
        for j in range(X.shape[1]):
            rows = np.flatnonzero((qid == q) & ~np.isnan(X[:, j]))
            x = X[rows, j]
            below = (x[None, :] < x[:, None]).sum(axis=1)
            equal = (x[None, :] == x[:, None]).sum(axis=1)
            n = len(x)
            out[rows, j] = 0.5 if n == 1 else (below + (equal - 1) / 2) / (n - 1)
    return out


# --- comparisons inside queries: pair by pair ---------------------------------------------------


def compared_pairs_in_queries(pairs, margin, weight, qid, cost, query_weight):
    """List (i, j, target, weight) of comparisons inside queries, with the weights of queries."""
    ids, of_pair = list(qid), [qid[i] for i, _ in pairs]
    listed = []
    for q, (i, j, z, w) in zip(of_pair, compared_pairs(pairs, margin, weight, cost), strict=True):
        if query_weight == "items":
            omega = 1 / ids.count(q)
        elif query_weight == "pairs":
            omega = 1.0
        elif query_weight == "equal":
            omega = 1 / sum(v for v, other in zip(weight, of_pair, strict=True) if other == q)
        else:
            omega = query_weight[q]
        listed.append((i, j, z, omega * w))
    return listed


def scores_without_queries(K, listed, qid, out, alpha):
    """Return the scores of all rows by a fit to the pairs that lie in no query of ``out``."""
    kept = [pair for pair in listed if qid[pair[0]] not in out]
    L, r = laplacian(kept, len(K))
    values, vectors = np.linalg.eigh(K)
    Z = vectors * np.sqrt(np.maximum(values, 0.0))  # symmetric: accurate for small alpha too
    return Z @ fit_primal(Z, L, r, alpha)


def left_out_loss(Z, splits, alpha):
    """Return the weighted squared error of left-out pairs by fits to the others.

    ``splits`` lists the pairs learned from and the pairs judged, as (i, j, target, weight).
    """
    loss = 0.0
    for learned, judged in splits:
        fits = Z.shape[1] and any(weight for *_, weight in learned)
        f = Z @ fit_least_squares(Z, learned, alpha) if fits else np.zeros(len(Z))
        loss += sum(w * (z - (f[i] - f[j])) ** 2 for i, j, z, w in judged)
    return loss


def greatest_with_first_relevant(scores, hits, decay, discounts):
    """Return the greatest score less the worth of the first relevant item, over all rankings."""
    best = -np.inf
    for ranking in permutations(range(len(scores))):
        first = next(j for j, item in enumerate(ranking) if hits[item])
        value = sum(decay[j] * scores[item] for j, item in enumerate(ranking))
        best = max(best, value - discounts[first])
    return best


def auc_and_variance(y, *rankings):
    """Return the AUCs of rankings and DeLong's covariance of them, from the matrix of all pairs."""
    relevant = np.flatnonzero(y == y.max())
    others = np.flatnonzero(y != y.max())
    by_relevant, by_other, aucs = [], [], []
    for scores in rankings:
        wins = np.array(
            [
                [(scores[i] > scores[j]) + 0.5 * (scores[i] == scores[j]) for j in others]
                for i in relevant
            ]
        )
        aucs.append(wins.mean())
        by_relevant.append(wins.mean(axis=1))
        by_other.append(wins.mean(axis=0))
    covariance = np.atleast_2d(np.cov(by_relevant)) / len(relevant)
    return np.array(aucs), covariance + np.atleast_2d(np.cov(by_other)) / len(others)


# Pairs of objects


def pair_scores(K, G, Y, alpha, sign=0, weight=1.0):
    """Return the scores of all cells, from the explicit kernel of all pairs; NaN is not known.

    ``sign`` 1 and -1 make the kernel of pairs symmetric and antisymmetric; each condition counts
    ``weight`` times the centred squares of its known scores.
    """
    n, q = Y.shape
    kernel = np.kron(K, G)
    if sign:
        swap = np.eye(n * n).reshape(n, n, n * n).transpose(1, 0, 2).reshape(n * n, n * n)
        kernel = (kernel + sign * swap @ kernel) / 2
    known = np.flatnonzero(~np.isnan(Y.ravel()))
    rows = known // q
    same = rows[:, None] == rows[None, :]
    L = weight * (np.eye(len(known)) - same / same.sum(axis=1))
    inner = kernel[np.ix_(known, known)]
    a = np.linalg.solve(L @ inner + alpha * np.eye(len(known)), L @ Y.ravel()[known])
    return (kernel[:, known] @ a).reshape(n, q)


def left_out_residuals(K, y, qid, n_known, ties, query_weight, alpha):
    """Return what each pair of each query misses by a fit without that query, times root weight.

    Items from ``n_known`` on are new: every two of a query form a pair, whatever their scores.
    """
    apart = np.concatenate([y[:n_known], np.arange(len(y) - n_known)])
    pairs = [
        (i, j, y[i] - y[j], w)
        for i, j, _, w in score_pairs(apart, qid, "magnitude", ties, query_weight)
    ]
    residuals = []
    for q in dict.fromkeys(qid):
        f = scores_without_queries(K, pairs, qid, [q], alpha)
        residuals += [np.sqrt(w) * (z - (f[i] - f[j])) for i, j, z, w in pairs if qid[i] == q]
    return np.array(residuals)


def transductive_scores(K, y, qid, ties, query_weight, alpha):
    """Return scores of the new items, those beyond ``y``, with the smallest left-out residuals."""
    n_new = len(K) - len(y)

    def residuals(new):
        scores = np.concatenate([y, new])
        return left_out_residuals(K, scores, qid, len(y), ties, query_weight, alpha)

    at_zero = residuals(np.zeros(n_new))
    slopes = np.column_stack([residuals(unit) - at_zero for unit in np.eye(n_new)])
    return np.linalg.lstsq(slopes, -at_zero, rcond=1e-9)[0]


# --- RankSVM: the best multiple of dual variables -----------------------------------------------


def svm_best_scaled_dual(pairs, X, duals, C, power):
    """Return the best dual objective of multiples of the duals, of those up to 1 for the hinge."""

    def negated(scale):
        return -svm_dual_objective(pairs, X, scale * duals, C, power)

    bounds = (0.0, 1.0 if power == 1 else 10.0)
    return -min(minimize_scalar(negated, bounds=bounds).fun, negated(1.0))


def tournament_wins(fit, X, y):
    """Share of meetings that each item wins, by models that are fitted without both items.

    ``fit`` takes rows and their scores and gives a function that scores rows.
    """
    n = len(y)
    won, met = np.zeros(n), np.zeros(n)
    for i in range(n):
        for j in range(i):
            kept = np.setdiff1d(np.arange(n), [i, j])
            if len(np.unique(y[kept])) < 2:
                continue
            lead = np.subtract(*fit(X[kept], y[kept])(X[[i, j]]))
            won[i] += 0.5 * (1 + np.sign(lead))
            won[j] += 0.5 * (1 - np.sign(lead))
            met[[i, j]] += 1
    return won / met


def judged_answer(reliability, width, tied, flip_rate=0.0):
    """Return P(answer | s) of a judge who sees ``reliability * s`` and ties within ``width``."""
    if tied:
        lead = lambda s: reliability * np.abs(s)  # noqa: E731  # the same on either side
        return lambda s: ndtr(width - lead(s)) - ndtr(-width - lead(s))
    return lambda s: (
        (1.0 - flip_rate) * ndtr(reliability * s - width)
        + flip_rate * ndtr(-reliability * s - width)
    )


def person_item_covariance(K, K_tastes, n_persons, Z=None, K_traits=None):
    """Return the covariance of f + g_p at all items: of nobody (f alone) first, then by person.

    Persons with features, the rows of Z with zeros for nobody, share Z Z' times K_traits besides.
    """
    common = np.kron(np.ones((n_persons + 1, n_persons + 1)), K)
    whole = common + np.kron(np.diag([0.0] + [1.0] * n_persons), K_tastes)
    return whole if Z is None else whole + np.kron(Z @ Z.T, K_traits)


def weights_without_each(grams, rhs, alphas):
    """Solve the normal equations of all folds but one, for each fold, output and alpha."""
    n = grams.shape[1]
    rest, rest_rhs = grams.sum(axis=0) - grams, rhs.sum(axis=0) - rhs
    solved = [[np.linalg.solve(G + alpha * np.eye(n), b.T) for alpha in alphas]
              for G, b in zip(rest, rest_rhs, strict=True)]  # fmt: skip
    return np.transpose(solved, (0, 3, 2, 1))


# --- loops over groups, pairs and sparse rows ---------------------------------------------------


def active_pairs(grade, starts, band_start, band_stop):
    """Return which positions r are active partners of p: in its window, and of lower grade."""
    query = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    r = np.arange(len(grade))
    in_window = (band_start[:, None] <= r) & (r < band_stop[:, None])
    return in_window & (grade < grade[:, None]) & (query == query[:, None])


def band_laplacian(active, item, weight, share, degree):
    """Return the Laplacian of active pairs over the items, item by item."""
    n_items = len(item)
    joined = share[:, None] * weight * (active | active.T)
    L = np.empty((n_items, n_items))
    L[np.ix_(item, item)] = np.diag(degree) - joined
    return L


def group_means(V, group, weight, n_groups):
    """Return the weighted mean of the rows of each group, 0 for a group without rows."""
    return np.stack([
        weight[group == g] @ V[group == g] / weight[group == g].sum()
        if np.any(group == g) else np.zeros(V.shape[1])
        for g in range(n_groups)
    ]) if n_groups else np.zeros((0, V.shape[1]))  # fmt: skip


def householder_rows(rows, axis, scale):
    """Reflect a group of rows by a matrix that takes ``axis`` to minus e_1; drop the first one."""
    e = axis / np.linalg.norm(axis)
    u = e + np.eye(len(e))[0]
    reflection = np.eye(len(e)) - 2.0 * np.outer(u, u) / (u @ u)
    return (reflection @ (scale[:, None] * rows))[1:]


def pair_leads_left_out(B, A, Y, i, j):
    """Return the lead of i over j for every output if both are left out: y_U less B_UU^-1 a_U."""
    U = [i, j]
    scores = Y[U] - np.linalg.solve(B[np.ix_(U, U)], A[U])
    return scores[0] - scores[1]


def nested_elimination(panel, floor):
    """Factorise columns one by one, those without a pivot above their floor left out."""
    panel, n_columns = panel.copy(), panel.shape[1]
    pivots = np.zeros(n_columns)
    for c in range(n_columns):
        if not panel[c, c] > floor[c]:
            panel[c, c], panel[c + 1 :, c] = 1.0, 0.0
            continue
        pivots[c] = panel[c, c]
        panel[c:, c] /= np.sqrt(pivots[c])
        panel[c + 1 :, c + 1 :] -= np.outer(panel[c + 1 :, c], panel[c + 1 : n_columns, c])
    return panel, pivots


# --- items sorted query by query ----------------------------------------------------------------


def sorted_items(keys, base, starts):
    """Return the items of each query by falling key, ties as in ``base``, and who is tied."""
    order, tied = np.empty(len(base), dtype=np.int64), np.zeros(len(base), dtype=bool)
    for a, b in pairwise(starts):
        order[a:b] = base[a:b][np.argsort(-keys[base[a:b]], kind="stable")]
        tied[a + 1 : b] = keys[order[a + 1 : b]] == keys[order[a : b - 1]]
    return order, tied
