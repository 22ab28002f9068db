"""What people use now: SciPy by hand, scikit-learn, StepMix and pomegranate."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import naive_bayes

Work = Callable[[], object]


def softmax(joint: Any) -> float:
    """Turn log p(x, y) into p(y | x) in place, and return the log-likelihood."""
    top = joint.max(axis=1, keepdims=True)
    joint -= top
    np.exp(joint, out=joint)
    total = joint.sum(axis=1, keepdims=True)
    joint /= total
    return float((top + np.log(total)).sum(dtype=np.float64))


def scipy_rounds(X: Any, log_p: Any, log_prior: Any, rounds: int = 1) -> Callable[[], float]:
    """Return EM rounds of a multinomial mixture by hand, in the type of X.

    What they return is the objective of the params that the last of them begins with.
    """
    start = np.ascontiguousarray(log_p.T.astype(X.dtype)), log_prior.astype(X.dtype)
    transposed = X.T.tocsr()

    def work() -> float:
        log_p, log_prior = start
        for _ in range(rounds):
            joint = X @ log_p
            joint += log_prior
            objective = softmax(joint) + float(log_p.sum(dtype=np.float64))
            counts = transposed @ joint
            counts += 1.0
            log_p = np.log(counts / counts.sum(axis=0))
            with np.errstate(divide="ignore"):  # of a class that is empty
                log_prior = np.log(joint.mean(axis=0))
        return objective

    return work


def scipy_fit(X: Any, labels: Any, rounds: int) -> float:
    """Fit a multinomial model to few labels by hand: so many rounds from what the labels say."""
    X = X.astype(np.float64)
    known = ~np.isnan(labels)
    codes = labels[known].astype(int)
    one_hot = np.eye(codes.max() + 1)[codes]
    fixed, members = X[known].T @ one_hot, one_hot.sum(axis=0)
    free = X[~known]
    transposed = free.T.tocsr()
    counts, shares, objective = fixed, members, -np.inf
    for _ in range(rounds + 1):
        smoothed = counts + 1.0
        log_p = np.log(smoothed / smoothed.sum(axis=0))
        log_prior = np.log(shares / shares.sum())
        joint = free @ log_p
        joint += log_prior
        objective = softmax(joint) + (fixed * log_p).sum() + members @ log_prior + log_p.sum()
        counts, shares = transposed @ joint + fixed, joint.sum(axis=0) + members
    return float(objective)


def sklearn_round(X: Any, y: Any, K: int) -> Work:
    """Return the recipe with scikit-learn: predict_proba, then refit on K weighted copies."""
    model = naive_bayes.MultinomialNB().fit(X, y)
    copies, labels = sparse.vstack([X] * K, format="csr"), np.repeat(np.arange(K), X.shape[0])

    def work() -> object:
        weight = model.predict_proba(X).T.ravel()
        return naive_bayes.MultinomialNB().fit(copies, labels, sample_weight=weight)

    return work


def stepmix(X: Any, K: int, kind: str, rounds: int, tol: float = 0.0) -> Any:
    """Return StepMix after at most so many rounds from a random start, or None if it is absent."""
    try:
        from stepmix import StepMix
    except ImportError:
        return None
    model = StepMix(
        n_components=K,
        measurement=kind,
        max_iter=rounds,
        abs_tol=tol,
        rel_tol=0.0,
        n_init=1,
        random_state=0,
        progress_bar=0,
        verbose=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(X)


def pomegranate_round(X: Any, probabilities: Any) -> Work | None:
    """Return one EM round of pomegranate on codes, or None if it is absent."""
    try:
        import torch
        from pomegranate.distributions import Categorical
        from pomegranate.gmm import GeneralMixtureModel
    except ImportError:
        return None
    rows = torch.tensor(X)
    parts = [Categorical(torch.tensor(p, dtype=torch.float32)) for p in probabilities]
    model = GeneralMixtureModel(parts)

    def work() -> object:
        model.summarize(rows)
        return model.from_summaries()

    return work
