"""Learning curves: accuracy by number of labels, with and without the unlabelled rows.

For users (`tacit.tuning`). Any classifier is fitted from outside, as scikit-learn's tools do; how
estimators choose settings by held-out labels is in the modules beside this one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, indexable

from tacit.data.labels import encode
from tacit.numerics import Array
from tacit.selection.cross_validation import Evaluation
from tacit.selection.splits import check_count

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["LearningCurve", "learning_curve"]


@dataclass(frozen=True, eq=False)
class LearningCurve:
    """Accuracy and log-loss by number of labels, with unlabelled rows and without them.

    ``print(curve)`` shows means over the draws, with standard errors. All draws are from the same
    rows: the errors measure how much depends on which rows are labelled.

    Attributes
    ----------
    labels : tuple of int
        How many labels of each class were kept; all that there are, if a class has fewer.
    accuracy, log_loss : ndarray of shape (len(labels), draws)
        Accuracy on the held-out labels, and the mean of -log p(label) in nats.
    accuracy_without, log_loss_without : ndarray of shape (len(labels), draws)
        The same without unlabelled rows.
    skipped : tuple of int
        Sizes that were asked for and that no class has besides the labels held out.
    """

    labels: tuple[int, ...]
    accuracy: Array
    log_loss: Array
    accuracy_without: Array
    log_loss_without: Array
    skipped: tuple[int, ...] = ()

    def __str__(self) -> str:
        lines = [
            f"{'labels':>7}{'accuracy':^36}{'log loss':^36}".rstrip(),
            f"{'a class':>7}" + 2 * f"{'labelled rows':>18}{'all rows':>18}",
        ]
        for i, size in enumerate(self.labels):
            line = f"{size:7}"
            for scores in (self.accuracy_without, self.accuracy):
                line += f"{'{:.1%} ± {:.1%}'.format(*_mean(scores[i])):>18}"
            for scores in (self.log_loss_without, self.log_loss):
                line += f"{'{:.3f} ± {:.3f}'.format(*_mean(scores[i])):>18}"
            lines.append(line)
        if self.skipped:
            lines.append(f"skipped, as no class has so many: {', '.join(map(str, self.skipped))}")
        return "\n".join(lines)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Plot accuracy with and without unlabelled rows, with standard errors.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where; else in a new figure.

        Returns
        -------
        matplotlib Axes
        """
        try:
            from matplotlib import pyplot as plt
            from matplotlib.ticker import PercentFormatter
        except ImportError:
            raise ImportError('Plots need matplotlib: pip install "tacit[plot]"') from None
        if ax is None:
            _, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
        lines = {
            "all rows, labelled or not": (self.accuracy, "#2f6ca3", "o-"),
            "labelled rows only": (self.accuracy_without, "#c8553d", "s--"),
        }
        for aside, (name, (scores, colour, form)) in zip((0.96, 1.04), lines.items(), strict=True):
            mean, error = _mean(scores)
            x = aside * np.array(self.labels)  # so that the bars can be told apart
            ax.errorbar(x, mean, error, fmt=form, color=colour, capsize=3, label=name)
        ax.set_xscale("log", base=2)
        ax.set_xticks(self.labels, [f"{size}" for size in self.labels])
        ax.yaxis.set_major_formatter(PercentFormatter(1.0))
        ax.set_xlabel("labels a class")
        ax.set_ylabel("accuracy on held-out rows, ± standard error")
        ax.grid(axis="y", color="#dddddd", linewidth=0.8)
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False)
        return ax


def learning_curve(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    labels: Sequence[int] = (1, 4, 16, 64, 256),
    n_draws: int = 10,
    test_size: float = 1 / 3,
    random_state: int = 0,
) -> LearningCurve:
    """Return accuracy by number of labels, with unlabelled rows and without them.

    Part of the rows whose label is known is held out, of each class alike. Of the rest, so many
    labels of each class are kept and the others removed. The estimator is fitted to all rows that
    are not held out, and again without those that have no label. Larger sizes keep the labels of
    the smaller ones of the same draw.

    Parameters
    ----------
    estimator : classifier
        A classifier of tacit, or anything that is fitted to labels some of which are None and has
        `predict_proba`, such as a pipeline. Clones are fitted.
    X : {array, sparse matrix, list, data frame, dict of lists}
        The rows, as the estimator takes them.
    y : array-like of shape (n,)
        Their labels. Rows whose label is missing (to the estimator) stay unlabelled.
    labels : sequence of int
        How many labels of each class to keep. A class that has fewer left keeps all; sizes that no
        class has left are skipped.
    n_draws : int, default=10
        How often to draw which rows are held out and which labels are kept, at least 2.
    test_size : float, default=1/3
        The part of the labelled rows that is held out. A class keeps at least one for the fit.
    random_state : int, default=0
        Which rows are drawn. The same number gives the same curve, if the estimator's fits repeat.

    Returns
    -------
    LearningCurve

    Notes
    -----
    Unlabelled rows are left out by ``unlabeled_weight=0`` if the estimator, or the last step
    of a pipeline, has that parameter: so both models have the same vocabulary, for one. Else they
    are dropped.

    Examples
    --------
    >>> from tacit import GaussianNB
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(300) % 2
    >>> X = rng.normal(size=(300, 5)) + 1.5 * y[:, None]
    >>> print(learning_curve(GaussianNB(), X, y, labels=(4, 16, 64, 256)))
     labels              accuracy                            log loss
    a class     labelled rows          all rows     labelled rows          all rows
          4      78.5% ± 1.8%      96.4% ± 0.6%     3.025 ± 0.803     0.133 ± 0.013
         16      94.0% ± 1.0%      96.4% ± 0.6%     0.183 ± 0.030     0.133 ± 0.013
         64      96.4% ± 0.7%      96.5% ± 0.6%     0.139 ± 0.015     0.134 ± 0.013
    skipped, as no class has so many: 256
    """
    check_count("n_draws", n_draws, 2)
    for size in labels:
        check_count("each of labels", size, 1)
    if not 0 < test_size < 1:
        raise ValueError(f"test_size must be between 0 and 1, got {test_size}.")
    last = _last_step(estimator)
    known = encode(y, getattr(last, "classes", None), getattr(last, "missing_label", None))
    if known.evidence is not None:
        raise ValueError("y holds evidence: expected one label a row, or none.")
    X = _indexable(X, known.codes)
    count = np.bincount(known.codes[known.codes >= 0], minlength=len(known.classes))
    held = np.minimum(np.rint(test_size * count).astype(np.intp), np.maximum(count - 1, 0))
    if not held.any():
        raise ValueError(
            f"There are too few labels to hold out a part of {test_size:.2g} of them: label more "
            "rows, or set test_size higher."
        )
    most = (count - held).max()
    sizes = sorted({int(size) for size in labels if size <= most})
    if not sizes:
        raise ValueError(
            f"labels={tuple(labels)}: no class has so many, at most {most} besides those held out."
        )

    scores = np.empty((4, len(sizes), n_draws))
    for draw in range(n_draws):
        place = _places(known.codes, held, np.random.default_rng([random_state, draw]))
        rest, test = np.flatnonzero(place >= 0), np.flatnonzero(place < 0)
        X_rest, X_test = _rows(X, rest), _rows(X, test)
        # The names of unlabelled rows are arbitrary: they are never kept.
        names, truth = known.classes[known.codes[rest]], known.classes[known.codes[test]]
        for i, size in enumerate(sizes):
            kept = place[rest] < size
            found = [
                Evaluation.of(model.predict_proba(X_test), np.searchsorted(model.classes_, truth))
                for model in _fit_both(estimator, X_rest, names, kept)
            ]
            scores[:, i, draw] = [e.accuracy for e in found] + [e.log_loss for e in found]
    accuracy, accuracy_without, log_loss, log_loss_without = scores
    return LearningCurve(
        tuple(sizes),
        accuracy,
        log_loss,
        accuracy_without,
        log_loss_without,
        tuple(sorted({int(size) for size in labels} - set(sizes))),
    )


def _mean(scores: Array) -> tuple[Any, Any]:
    """Return means and standard errors over draws, which are the last axis."""
    return scores.mean(axis=-1), scores.std(axis=-1, ddof=1) / np.sqrt(scores.shape[-1])


def _last_step(estimator: Any) -> Any:
    return estimator[-1] if isinstance(estimator, Pipeline) else estimator


def _places(
    codes: npt.NDArray[np.intp], held: npt.NDArray[np.intp], rng: np.random.Generator
) -> npt.NDArray[np.intp]:
    """Return a random rank of each row in its class, negative if it is held out.

    Unlabelled rows come after all others.
    """
    place = np.full(len(codes), len(codes))
    for k, n in enumerate(held):
        rows = rng.permutation(np.flatnonzero(codes == k))
        place[rows] = np.arange(len(rows)) - n
    return place


def _fit_both(estimator: Any, X: Any, names: Any, kept: npt.NDArray[np.bool_]) -> tuple[Any, Any]:
    """Return two fitted clones: with the rows whose label is not kept, and without them."""
    labels = names.astype(object)
    labels[~kept] = None
    both, without = clone(estimator).fit(X, labels), clone(estimator)
    if "unlabeled_weight" in _last_step(without).get_params(deep=False):
        _last_step(without).set_params(unlabeled_weight=0.0)
        return both, without.fit(X, labels)
    return both, without.fit(_rows(X, np.flatnonzero(kept)), names[kept])


def _indexable(X: Any, codes: npt.NDArray[np.intp]) -> Any:
    """Return X such that rows can be taken from it; ValueError if it has not one for each code."""
    if isinstance(X, Mapping):
        return {name: indexable(column, codes)[0] for name, column in X.items()}
    return indexable(X, codes)[0]


def _rows(X: Any, rows: npt.NDArray[np.intp]) -> Any:
    """Return rows of an array, a sparse matrix, a list, a data frame or a dict of columns."""
    if isinstance(X, Mapping):
        return {name: _safe_indexing(column, rows) for name, column in X.items()}
    return _safe_indexing(X, rows)
