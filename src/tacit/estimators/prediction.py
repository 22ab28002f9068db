"""Prediction with a fitted model: p(x, y), p(y | x) and p(x) of new rows, and sampling.

Shared by classifiers and mixtures; needs `_model` and `_params`, which `base` sets. Nothing is
fitted here.
"""

from __future__ import annotations

from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from tacit import kernels
from tacit.data.rows import Rows
from tacit.data.validation import check_numbers, check_shape
from tacit.models.naive_bayes import ClassCounts, Params
from tacit.numerics import Array

__all__ = ["PredictionMixin"]


class PredictionMixin:
    """Methods of a fitted estimator that only read its model and params."""

    n_jobs: int | None
    random_state: Any
    _model: Any  # NaiveBayes, whose family depends on the estimator
    _params: Params
    _statistics: ClassCounts

    def _accepts_sparse(self) -> bool:
        return False

    def _needs_blas(self, X: Any) -> bool:
        """Return whether BLAS is used on rows X, so that its threads must be limited."""
        return True

    def _check_shape(self, X: Any, reset: bool) -> Any:
        """Return X as an array or CSR matrix of the right width; values are not validated."""
        return check_shape(self, X, reset, self._accepts_sparse())

    def _predict_rows(self, X: Any, output: kernels.Output) -> tuple[Array, Array]:
        """Return log p(x, y), p(y | x) or log p(y | x), shape (n, K), and log p(x), shape (n,).

        A kernel takes all rows at once where the family has one; else they go chunk by chunk.
        """
        check_is_fitted(self)
        model, params = self._model, self._params
        blas = kernels.one_blas_thread(self._needs_blas(X))
        with blas, kernels.kernel_threads(self.n_jobs):
            X = self._check_shape(X, reset=False)
            prior = params.class_log_prior
            found = model.family.predict_rows(params.features, X, prior, output)
            if found is None:
                rows = Rows(model.family.encode(check_numbers(X)))
                pieces = [model.predict_rows(params, chunk, output) for chunk in rows.chunks()]
                found = (
                    pieces[0]
                    if len(pieces) == 1
                    else tuple(map(np.concatenate, zip(*pieces, strict=True)))
                )
            table, log_p = found
            if output != "joint":  # rows that are impossible in every class get the prior
                table[np.isneginf(log_p)] = prior if output == "log_posterior" else np.exp(prior)
        return table, log_p

    def _most_probable(self, X: Any) -> npt.NDArray[np.intp]:
        """Return the index of the class with the largest p(x, y), or p(y) where all are 0."""
        joint = self.predict_joint_log_proba(X)
        best = joint.argmax(axis=1)
        impossible = np.isneginf(joint[np.arange(len(best)), best])
        if impossible.any():  # p(y | x) is p(y) there
            best[impossible] = self.predict_proba(X)[impossible].argmax(axis=1)
        return np.asarray(best)

    def predict_joint_log_proba(self, X: Any) -> Array:
        """Return log p(x, y) = log p(y) + log p(x | y) of each row and class.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows; NaN is a missing value.

        Returns
        -------
        ndarray of shape (n, K)
        """
        return self._predict_rows(X, "joint")[0]

    def score_samples(self, X: Any) -> Array:
        """Return log p(x) of each row.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows; NaN is a missing value.

        Returns
        -------
        ndarray of shape (n,)
        """
        return self._predict_rows(X, "posterior")[1]

    def predict_proba(self, X: Any) -> Array:
        """Return p(y | x) of each row and class.

        A row that is impossible under every class (which needs a probability of zero, thus
        alpha = 0) gets the class prior.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows; NaN is a missing value.

        Returns
        -------
        ndarray of shape (n, K)
        """
        return self._predict_rows(X, "posterior")[0]

    def _sample_rows(self, n_samples: int) -> tuple[Any, npt.NDArray[np.intp]]:
        """Return rows drawn from the model, and the index of the class of each."""
        check_is_fitted(self)
        if index(n_samples) < 1:
            raise ValueError(f"Invalid value for 'n_samples': {n_samples}. It must be at least 1.")
        rng = check_random_state(self.random_state)
        prior = np.exp(self._params.class_log_prior)
        drawn = np.repeat(np.arange(len(prior)), rng.multinomial(n_samples, prior / prior.sum()))
        X = self._model.family.sample(self._params.features, self._statistics.features, drawn, rng)
        return self._as_rows(X, drawn, rng), drawn

    def _as_rows(
        self, drawn: Array, labels: npt.NDArray[np.intp], rng: np.random.RandomState
    ) -> Any:
        """Return sampled numbers in the user's form of rows."""
        return drawn

    def n_parameters(self) -> int:
        """Return the number of free parameters of the fitted model."""
        check_is_fitted(self)
        return int(self._model.n_parameters(self._params))
