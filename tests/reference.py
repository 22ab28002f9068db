"""One EM round of naive Bayes models in plain Python: slow, obvious, and the oracle of the tests.

Written from the notes (C = Collins, H = Hoey, W = Wood-Doughty, L = lecture notes), `math` only.
`soft[i][y]` is always weight_i * delta(y|i). A missing cell is None or NaN. An estimate of the form
0/0 (a class, or a column within a class, in which nothing is observed) raises ZeroDivisionError.
"""

import math
from collections.abc import Sequence
from typing import Any

Row = Sequence[float | None]
Rows = Sequence[Row]
Vector = list[float]
Matrix = list[list[float]]
Params = dict[str, Any]


def em_round(
    family: str,
    X: Rows,
    evidence: Matrix,
    weight: Vector,
    params: Params,
    *,
    alpha: float = 0.0,
    class_alpha: float = 0.0,
    fixed_prior: Vector | None = None,
    hard: bool = False,
    noise: float = 0.0,
) -> tuple[Params, Matrix, float]:
    """Return (new params, delta(y|i) under `params`, objective at `params`).  C Fig. 1 and 2"""
    q = params["prior"]
    k = len(q)
    delta, soft = [], []
    objective = log_prior(family, params, alpha)
    for row, shown, w in zip(X, evidence, weight, strict=True):
        given = [log_density(family, row, params, y, noise) for y in range(k)]
        joint = [log(shown[y]) + log(q[y]) + given[y] for y in range(k)]  # C (1), W (11)
        posterior, log_likelihood = e_step(joint, hard)
        delta.append(posterior)
        soft.append([w * p for p in posterior])
        objective += times(w, log_likelihood)  # C (10)
    new = m_step(family, X, soft, params, alpha, noise)
    if fixed_prior is not None:
        return {"prior": list(fixed_prior), **new}, delta, objective
    objective += sum(times(class_alpha, log(p)) for p in q)
    total = k * class_alpha + sum(weight)
    prior = [(class_alpha + sum(s[y] for s in soft)) / total for y in range(k)]  # W (19), L
    return {"prior": prior, **new}, delta, objective


def run(
    family: str, X: Rows, evidence: Matrix, weight: Vector, params: Params, rounds: int, **kw: Any
) -> tuple[Params, Vector]:
    """Return the last params and the rounds + 1 objectives from the first params to the last."""
    objectives = []
    for _ in range(rounds):
        new, _delta, objective = em_round(family, X, evidence, weight, params, **kw)
        objectives.append(objective)
        params = new
    objectives.append(em_round(family, X, evidence, weight, params, **kw)[2])
    return params, objectives


def log(p: float) -> float:
    """Natural logarithm with log 0 = -inf."""
    return -math.inf if p == 0 else math.log(p)


def times(a: float, b: float) -> float:
    """a * b with 0 * -inf = 0.  C footnote 1"""
    return 0.0 if a == 0 else a * b


def log_sum_exp(values: Vector) -> float:
    """Log of a sum of exponentials.  W (16)"""
    top = max(values)
    if top == -math.inf:
        raise ValueError("a row is impossible under every class")
    return top + math.log(sum(math.exp(v - top) for v in values))


def dot(u: Vector, v: Vector) -> float:
    """Inner product."""
    return sum(a * b for a, b in zip(u, v, strict=True))


def observed(row: Row) -> dict[int, float]:
    """The observed cells of a row, by index."""
    return {j: x for j, x in enumerate(row) if x is not None and not math.isnan(x)}


def invert(matrix: Matrix) -> tuple[Matrix, float]:
    """Inverse and log |determinant|, by Gauss-Jordan elimination with pivoting."""
    n = len(matrix)
    work = [list(matrix[a]) + [float(a == b) for b in range(n)] for a in range(n)]
    log_det = 0.0
    for c in range(n):
        _, best = max((abs(work[a][c]), a) for a in range(c, n))
        work[c], work[best] = work[best], work[c]
        pivot = work[c][c]
        log_det += math.log(abs(pivot))
        work[c] = [value / pivot for value in work[c]]
        for a in range(n):
            if a != c:
                factor = work[a][c]
                work[a] = [work[a][b] - factor * work[c][b] for b in range(2 * n)]
    return [line[n:] for line in work], log_det


def e_step(joint: Vector, hard: bool) -> tuple[Vector, float]:
    """delta(y|i) and the log-likelihood of a row, from its log (evidence * p(x, y))."""
    total = log_sum_exp(joint)
    if hard:  # H "Hidden class variable"
        best = joint.index(max(joint))
        return [float(y == best) for y in range(len(joint))], joint[best]
    return [math.exp(value - total) for value in joint], total  # C Fig. 1 step 1, W (18)


def log_density(family: str, row: Row, params: Params, y: int, noise: float) -> float:
    """Log p(x|y) of the observed cells."""
    total = 0.0
    if family == "mixed":
        for part, columns, inner, _, eps in params["parts"]:
            total += log_density(part, [row[c] for c in columns], inner, y, eps)
        return total
    if family == "multinomial":
        return multinomial_log_density(row, params["theta"][y])
    if family in ("full", "tied"):
        return normal_log_density(row, params["mean"][y], cov_of(family, params, y), noise)
    for j, x in observed(row).items():
        if family == "bernoulli":  # W (5)
            theta = params["theta"][y][j]
            total += times(x, log(theta)) + times(1 - x, log(1 - theta))
        elif family == "categorical":  # C (4), L "Naive Bayes"
            total += log(params["theta"][y][j][int(x)])
        else:  # "gaussian", L "Gaussian Distribution"
            m, v = params["mean"][y][j], params["var"][y][j]
            total -= (math.log(2 * math.pi * v) + ((x - m) ** 2 + noise) / v) / 2
    return total


def multinomial_log_density(row: Row, theta: Vector) -> float:
    """Log-probability of the tokens given that they fell in the observed cells.  L"""
    seen = observed(row)
    inside = 1.0 if len(seen) == len(row) else sum(theta[t] for t in seen)
    inside = inside or 1.0  # every theta is then 0: tokens are impossible, no tokens are certain
    return sum(times(x, log(theta[t] / inside)) for t, x in seen.items())


def cov_of(family: str, params: Params, y: int) -> Any:
    """The covariance matrix of class y."""
    return params["cov"] if family == "tied" else params["cov"][y]


def normal_log_density(row: Row, mean: Vector, cov: Matrix, noise: float) -> float:
    """Expected log N of the observed cells under their noise.  L "Gaussian Distribution" """
    seen = observed(row)
    precision, log_det = invert([[cov[a][b] for b in seen] for a in seen])
    gap = [x - mean[a] for a, x in seen.items()]
    quadratic = sum(gap[a] * dot(precision[a], gap) for a in range(len(gap)))
    quadratic += noise * sum(precision[a][a] for a in range(len(gap)))
    return -(len(gap) * math.log(2 * math.pi) + log_det + quadratic) / 2


def log_prior(family: str, params: Params, alpha: float) -> float:
    """alpha times the sum of the logs of the feature probabilities.  H "Laplace correction" """
    total = 0.0
    if family == "mixed":
        for part, _, inner, part_alpha, _ in params["parts"]:
            total += log_prior(part, inner, part_alpha)
        return total
    for theta in params.get("theta", []):  # one class; Gaussians have no theta
        for p in theta:
            values = p if family == "categorical" else [p]
            if family == "bernoulli":
                values = [p, 1 - p]
            total += sum(times(alpha, log(value)) for value in values)
    return total


def m_step(
    family: str, X: Rows, soft: Matrix, params: Params, alpha: float, noise: float
) -> Params:
    """New params of a family, without the class prior: the arg max of C (11)."""
    if family == "mixed":
        parts = []
        for part, columns, inner, part_alpha, eps in params["parts"]:
            inner_X = [[row[c] for c in columns] for row in X]
            new = m_step(part, inner_X, soft, inner, part_alpha, eps)
            parts.append((part, columns, new, part_alpha, eps))
        return {"parts": parts}
    if family in ("full", "tied"):
        return m_step_normal(family, X, soft, params, noise)
    k, d = len(soft[0]), len(X[0])
    if family == "multinomial":
        return {"theta": [m_step_multinomial(X, soft, params, y, alpha) for y in range(k)]}
    cells = [[column(X, soft, y, j) for j in range(d)] for y in range(k)]
    if family == "bernoulli":  # W (20)
        return {"theta": [[frequencies(c, 2, alpha)[1] for c in line] for line in cells]}
    if family == "categorical":
        v = [len(p) for p in params["theta"][0]]
        return {"theta": [[frequencies(c[j], v[j], alpha) for j in range(d)] for c in cells]}
    return {
        "mean": [[mean_and_variance(c)[0] for c in line] for line in cells],
        "var": [[mean_and_variance(c)[1] + noise for c in line] for line in cells],
    }


def column(X: Rows, soft: Matrix, y: int, j: int) -> list[tuple[float, float]]:
    """Pairs (soft count for class y, value) of the observed cells of column j."""
    seen = [observed(row) for row in X]
    return [(soft[i][y], seen[i][j]) for i in range(len(X)) if j in seen[i]]


def frequencies(cells: list[tuple[float, float]], size: int, alpha: float) -> Vector:
    """Smoothed soft frequencies of the values 0 .. size - 1.  C Fig. 1 step 2, L "Laplace" """
    total = size * alpha + sum(s for s, _ in cells)
    return [(alpha + sum(s for s, x in cells if x == v)) / total for v in range(size)]


def mean_and_variance(cells: list[tuple[float, float]]) -> tuple[float, float]:
    """Soft mean and variance of a column.  L "GDA", per feature"""
    count = sum(s for s, _ in cells)
    mean = sum(s * x for s, x in cells) / count
    return mean, sum(s * (x - mean) ** 2 for s, x in cells) / count


def m_step_multinomial(X: Rows, soft: Matrix, params: Params, y: int, alpha: float) -> Vector:
    """Smoothed soft token frequencies; missing cells take expected counts.  L "Multinomial" """
    theta = params["theta"][y]
    counts = [alpha] * len(theta)
    for row, s in zip(X, soft, strict=True):
        seen = observed(row)
        tokens = sum(seen.values())
        if s[y] == 0 or tokens == 0:
            continue
        inside = sum(theta[t] for t in seen)
        for t in range(len(theta)):
            counts[t] += s[y] * (seen[t] if t in seen else tokens * theta[t] / inside)
    return [c / sum(counts) for c in counts]


def complete(row: Row, mean: Vector, cov: Matrix, noise: float) -> tuple[Vector, Matrix]:
    """E[x | observed cells] and the covariance of x around it, noise included."""
    seen, d = observed(row), len(row)
    precision, _ = invert([[cov[a][b] for b in seen] for a in seen])
    gap = [x - mean[a] for a, x in seen.items()]
    cross = [[cov[a][o] for o in seen] for a in range(d)]  # covariance with the observed cells
    gain = [[dot(line, cross[a]) for line in precision] for a in range(d)]  # A
    for a in seen:
        gain[a] = [float(a == o) for o in seen]
    expected = [seen[a] if a in seen else mean[a] + dot(gain[a], gap) for a in range(d)]
    spread = [[noise * dot(gain[a], gain[b]) for b in range(d)] for a in range(d)]
    for a in range(d):
        for b in range(d):
            if a not in seen and b not in seen:
                spread[a][b] += cov[a][b] - dot(gain[a], cross[b])
    return expected, spread


def m_step_normal(family: str, X: Rows, soft: Matrix, params: Params, noise: float) -> Params:
    """Means and covariances from conditional expectations.  L "GDA" """
    d, k = len(X[0]), len(soft[0])
    counts = [sum(s[y] for s in soft) for y in range(k)]
    means, covs = [], []
    for y in range(k):
        done = [complete(row, params["mean"][y], cov_of(family, params, y), noise) for row in X]
        rows = [(s[y] / counts[y], *both) for s, both in zip(soft, done, strict=True)]
        m = [sum(r * x[a] for r, x, _ in rows) for a in range(d)]
        cov = [[0.0] * d for _ in range(d)]
        for r, x, spread in rows:
            for a in range(d):
                for b in range(d):
                    cov[a][b] += r * ((x[a] - m[a]) * (x[b] - m[b]) + spread[a][b])
        means.append(m)
        covs.append(cov)
    if family == "full":
        return {"mean": means, "cov": covs}
    share = [count / sum(counts) for count in counts]
    tied = [[dot(share, [c[a][b] for c in covs]) for b in range(d)] for a in range(d)]
    return {"mean": means, "cov": tied}
