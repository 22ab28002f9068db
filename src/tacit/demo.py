"""The main job on data that every installation has: ``python -m tacit.demo``.

scikit-learn's 1,797 handwritten digits, of which a few in each class keep their label. Each model
is fitted to the labelled rows alone, and to all rows with the other labels missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits

from tacit.base import EMEstimator
from tacit.classifiers import BernoulliNB, GaussianDiscriminant, MultinomialNB
from tacit.numerics import Array

__all__ = ["accuracies", "main"]

MODELS = [
    ("ink or not", BernoulliNB(binarize=7.0)),
    ("ink counts", MultinomialNB()),
    ("ink amounts", GaussianDiscriminant(var_smoothing=0.1)),
]


def accuracies(nb: EMEstimator, X: Array, y: Any, labels: int, draws: int) -> Array:
    """Return the accuracy on the hidden labels, supervised and with EM, for each draw of labels.

    Parameters
    ----------
    nb : classifier
        The model.
    X, y : ndarray
        Rows and all their labels.
    labels : int
        How many labels of each class are kept.
    draws : int
        How often to draw them.

    Returns
    -------
    ndarray of shape (draws, 2)

    Examples
    --------
    >>> X, y = load_digits(return_X_y=True)
    >>> supervised, em = accuracies(BernoulliNB(binarize=7.0), X, y, labels=1, draws=2).mean(axis=0)
    >>> bool(em > supervised)
    True
    """
    rng = np.random.default_rng(0)
    result = []
    for _ in range(draws):
        order = rng.permutation(len(y))
        kept = np.concatenate([order[y[order] == k][:labels] for k in np.unique(y)])
        some = np.full(len(y), np.nan)
        some[kept] = y[kept]
        hidden = np.isnan(some)
        models = [clone(nb).set_params(unlabeled_weight=w).fit(X, some) for w in (0.0, 1.0)]
        result.append([(m.transduction_[hidden] == y[hidden]).mean() for m in models])
    return np.array(result)


def main(labels: Sequence[int] = (1, 2, 5), draws: int = 5) -> None:
    """Print the accuracy of each model with and without the rows whose label is missing.

    Parameters
    ----------
    labels : sequence of int, default=(1, 2, 5)
        How many labels of each class are kept: a column of the table for each.
    draws : int, default=5
        Over how many draws of them to take the mean.
    """
    X, y = load_digits(return_X_y=True)
    print(
        f"{len(y)} handwritten digits in {len(np.unique(y))} classes, a few with their label.\n"
        f"How many of the hidden labels are found, from the labelled rows alone\n-> with all rows, "
        f"by EM (means of {draws} draws of the labels):\n"
    )
    print(f"{'labels for each class':<35}" + "".join(f"{n:>15}" for n in labels))
    for text, nb in MODELS:
        print(f"{type(nb).__name__:<22}{text:<13}", end="", flush=True)
        for n in labels:
            supervised, em = accuracies(nb, X, y, n, draws).mean(axis=0)
            print(f"{f'{supervised:.0%} -> {em:.0%}':>15}", end="", flush=True)
        print()
    print("\nUnlabelled rows help where labels are few and the model fits; they can also hurt.")


if __name__ == "__main__":
    main()
