"""Ratios against what people use now, measured side by side: ``make bench``.

Every line is the ratio of two medians, the contenders taking turns in one process. Nothing here is
a verdict by the clock: the machine is shared, and only the ratios mean anything. Writes results.md.
"""

from __future__ import annotations

import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
from scipy import sparse
from sklearn import naive_bayes

import tacit
from tacit import engine
from tacit.families import Multinomial
from tacit.naivebayes import NaiveBayes

Work = Callable[[], object]


def medians(contenders: dict[str, Work], turns: int) -> dict[str, float]:
    """Return the median seconds of each, all of them taking a turn before any takes the next."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for work in contenders.values():
        work()  # caches and allocators warm for all
    for _ in range(turns):
        for name, work in contenders.items():
            began = time.perf_counter()
            work()
            seconds[name].append(time.perf_counter() - began)
    return {name: statistics.median(values) for name, values in seconds.items()}


def zipf(n: int, words: int, tokens: int, seed: int = 0) -> Any:
    """Return counts of words whose frequencies fall as 1 / rank."""
    rng = np.random.default_rng(seed)
    p = 1.0 / (np.arange(words) + 2.7)
    columns = rng.choice(words, size=tokens, p=p / p.sum())
    X = sparse.csr_array((np.ones(tokens), (rng.integers(0, n, tokens), columns)), (n, words))
    X.sum_duplicates()
    return X


def scipy_round(X: Any, log_p: Any, log_prior: Any) -> Work:
    """Return one EM round of a multinomial mixture by hand, in the type of X."""
    log_p = np.ascontiguousarray(log_p.T.astype(X.dtype))
    log_prior = log_prior.astype(X.dtype)
    transposed = X.T.tocsr()

    def work() -> object:
        joint = X @ log_p
        joint += log_prior
        top = joint.max(axis=1, keepdims=True)
        joint -= top
        np.exp(joint, out=joint)
        total = joint.sum(axis=1, keepdims=True)
        joint /= total
        counts = transposed @ joint
        counts += 1.0
        new = np.log(counts / counts.sum(axis=0))
        return (top + np.log(total)).sum(dtype=np.float64), new, np.log(joint.mean(axis=0))

    return work


def sklearn_round(X: Any, y: Any, K: int) -> Work:
    """Return the recipe with scikit-learn: predict_proba, then refit on K weighted copies."""
    model = naive_bayes.MultinomialNB().fit(X, y)
    copies, labels = sparse.vstack([X] * K, format="csr"), np.repeat(np.arange(K), X.shape[0])

    def work() -> object:
        weight = model.predict_proba(X).T.ravel()
        return naive_bayes.MultinomialNB().fit(copies, labels, sample_weight=weight)

    return work


def em_rounds(n: int, words: int, tokens: int, K: int, turns: int, recipe: bool) -> list[str]:
    """Return lines on one EM round on sparse text."""
    X = zipf(n, words, tokens)
    model = NaiveBayes(Multinomial(1.0).bind(X))
    rows = model.rows(X)
    rng = np.random.default_rng(1)
    params = model.start(rows, rng.dirichlet(np.ones(K), n))

    def work() -> object:
        with engine.one_blas_thread(), engine.kernel_threads(-1):
            statistics = model.expect(params, rows)
            return model.log_prior(model.maximize(statistics))

    by_hand = params.features.log_p, params.class_log_prior
    contenders = {
        "tacit": work,
        "SciPy float64 by hand": scipy_round(X, *by_hand),
        "SciPy float32 by hand": scipy_round(X.astype(np.float32), *by_hand),
    }
    if recipe:
        y = rng.integers(0, K, n)
        contenders["the scikit-learn recipe"] = sklearn_round(X, y, K)
    return lines(f"EM round, {n:,} x {words:,}, {X.nnz:,} non-zeros, K={K}", contenders, turns)


def supervised(n: int, words: int, tokens: int, turns: int) -> list[str]:
    """Return lines on fitting and predicting with complete labels."""
    rng = np.random.default_rng(0)
    X, y = zipf(n, words, tokens), rng.integers(0, 20, n)
    codes, numbers = rng.integers(0, 4, (10 * n, 20)), rng.normal(size=(10 * n, 20))
    many = rng.integers(0, 5, 10 * n)
    result = []
    for name, data, labels in [
        ("MultinomialNB", X, y),
        ("BernoulliNB", X, y),
        ("CategoricalNB", codes, many),
        ("GaussianNB", numbers, many),
    ]:
        ours, theirs = getattr(tacit, name)(n_jobs=-1), getattr(naive_bayes, name)()
        for what, verb in (("fit", "fit"), ("predict_log_proba", "predict_log_proba")):
            given = (data, labels) if verb == "fit" else (data,)
            contenders = {
                "tacit": lambda m=ours, v=verb, g=given: getattr(m, v)(*g),
                "scikit-learn": lambda m=theirs, v=verb, g=given: getattr(m, v)(*g),
            }
            shape = f"{data.shape[0]:,} x {data.shape[1]:,}"
            result += lines(f"{name} {what}, all labels, {shape}", contenders, turns)
    return result


def lines(work: str, contenders: dict[str, Work], turns: int) -> list[str]:
    """Return a line of the table for each contender but tacit, which is the first."""
    seconds = medians(contenders, turns)
    ours = seconds.pop("tacit")
    return [f"| {work} | {name} | {other / ours:.1f}x |" for name, other in seconds.items()]


def main(scale: float = 1.0, turns: int = 9) -> str:
    """Run everything at a scale of the sizes, and return the page."""
    n, words, tokens = (int(scale * size) for size in (20_000, 50_000, 2_100_000))
    table = em_rounds(n, words, tokens, 20, turns, recipe=True)
    table += em_rounds(5 * n, words, 10 * tokens // 3, 2, turns, recipe=False)
    table += supervised(n, words, tokens, turns)
    versions = (
        f"Python {platform.python_version()}, NumPy {np.__version__}, SciPy {scipy.__version__}"
    )
    return "\n".join(
        [
            "# How fast: tacit against what people use now",
            "",
            "Written by `make bench`. How many times as long the other takes: medians of "
            f"{turns} turns, taken in turn in one process on a shared machine.",
            "",
            f"{platform.machine()}, {engine.effective_n_jobs(-1)} cores; {versions}, "
            f"SciPy {scipy.__version__}, scikit-learn {sklearn.__version__}. Zipf counts.",
            "",
            "| work | against | ratio |",
            "|---|---|---|",
            *table,
            "",
        ]
    )


if __name__ == "__main__":
    page = main()
    Path(__file__).with_name("results.md").write_text(page)
    sys.stdout.write(page)
