"""Model files: `save` and `load` of fitted estimators, without running code from the file.

Here an estimator becomes a record, and a record a validated estimator. The closed list of records
is in `registry`; the format is `tacit.io`'s (`records` for values, `container` for the file) and
described in docs/model-files.md. No pickle, no eval, no import or attribute by a name from a file.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from tacit import kernels
from tacit.estimators.base import EMEstimator
from tacit.estimators.classifier import Classifier
from tacit.estimators.classifiers import MultinomialNB
from tacit.estimators.mixture import Mixture
from tacit.estimators.mixtures import MultinomialMixture
from tacit.families.base import check_array
from tacit.frames.clusters import ClusterMixture, TableClusters
from tacit.frames.columns import Column
from tacit.frames.residual import TableCorrection
from tacit.io.container import ModelFileError, read, write
from tacit.io.records import fits
from tacit.modelfile.registry import (
    RECORDS,
    Saved,
    SavedEnsemble,
    SavedGroups,
    SavedMember,
    SavedTextGroups,
    SavedTexts,
)
from tacit.models.naive_bayes import Params
from tacit.numerics import Array, log_normalize
from tacit.selection.ensemble import Ensemble
from tacit.text.classifier import TextClassifier
from tacit.text.clusters import TextClusters
from tacit.text.parts import TextLogistic, WordModel

__all__ = ["ModelFileError", "load", "save"]

M = TypeVar("M", bound=Mixture)

# Log-odds in nats beyond which nothing estimated from data goes.
MOST = 1e6
# Attributes of a fit that are kept, and their types: not those about the training rows.
FACTS = {
    **dict.fromkeys(("trace_", "lower_bounds_", "start_objectives_"), Array),
    **dict.fromkeys(("objective_", "log_likelihood_", "lower_bound_"), float),
    **dict.fromkeys(("n_iter_", "n_best_starts_"), int),
    "converged_": bool,
}


def save(estimator: EMEstimator | TextClassifier, path: str | os.PathLike[str]) -> None:
    """Write a fitted estimator; see `EMEstimator.save`."""
    check_is_fitted(estimator)
    if type(estimator) not in (record.type for record in RECORDS.values()):
        raise TypeError(f"{type(estimator).__name__} is not a class of tacit: pickle it instead.")
    of_texts = isinstance(estimator, TextClassifier)
    write(path, _saved_texts(estimator) if of_texts else _saved(estimator), RECORDS)


def _saved_texts(estimator: TextClassifier) -> SavedEnsemble:
    return SavedEnsemble(
        estimator,
        estimator.vectorizer_,
        estimator.classes_,
        estimator.class_shares_,
        tuple(map(_saved_part, estimator.ensemble_.parts)),
        estimator.ensemble_.weights,
        estimator.ensemble_.log_prior,
        estimator.unlabeled_help_,
        estimator.evaluation_,
    )


def _saved_part(
    part: WordModel | TextClusters | TextLogistic,
) -> SavedMember | SavedTextGroups | TextLogistic:
    if isinstance(part, WordModel):
        return SavedMember(part.name, part.weights, _saved(part.model))
    if isinstance(part, TextClusters):
        mixtures = tuple(map(_saved, part.mixtures))
        return SavedTextGroups(mixtures, part.class_ratios, part.weight, part.weights)
    return part


def _of_columns(texts: dict[str, TextClassifier]) -> dict[str, SavedEnsemble]:
    """Return the records of the classifiers of text columns, whose vocabulary the columns keep."""
    return {name: replace(_saved_texts(text), vectorizer=None) for name, text in texts.items()}


def _saved(estimator: EMEstimator) -> Saved:
    """Return the record of an estimator; ValueError if it could not be loaded again."""
    classes, order = None, None
    if isinstance(estimator, Classifier):
        classes = estimator.classes_
        place = {name: code for code, name in enumerate(classes.tolist())}
        named = np.asarray(estimator._named_classes).tolist()
        order = np.array([place[name] for name in named], np.int64)
    more = {n: v for n, v in vars(estimator).items() if n in FACTS or n in estimator._saved}
    if "texts_" in more:
        more["texts_"] = _of_columns(more["texts_"])
    if isinstance(groups := more.get("groups_"), TableClusters):
        kept = tuple(map(_saved, groups.mixtures))
        more["groups_"] = SavedGroups(kept, groups.class_ratios, groups.weight)
    saved = Saved(
        estimator,
        estimator._model,
        estimator._statistics,
        classes,
        order,
        estimator.n_features_in_,
        getattr(estimator, "feature_names_in_", None),
        more,
    )
    try:
        with _quietly():
            _params(estimator, saved)  # a record that could not be loaded is not written
    except ValueError as error:
        raise ValueError(f"This {type(estimator).__name__} cannot be saved: {error}.") from error
    return saved


def load(path: str | os.PathLike[str]) -> Any:
    """Read an estimator that `save` wrote. No code from the file runs.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    estimator
        It predicts the same bits, and can continue with `partial_fit` or a warm start. Attributes
        about the training rows (`label_distributions_`, `transduction_`) are not kept; parameters
        that are not data (`callback`, functions, random states) and those about the process
        (`n_jobs`, `verbose`) have their defaults.

    Raises
    ------
    ModelFileError
        If the file is not a model file, damaged, or of a later format.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import tacit
    >>> path = Path(tempfile.mkdtemp()) / "model.safetensors"
    >>> tacit.GaussianNB().fit([[1.0], [3.0]], ["low", "high"]).save(path)
    >>> tacit.load(path).predict([[1.2]])
    array(['low'], dtype='<U4')
    """
    path = Path(path)
    if path.exists() and not path.is_file():
        raise ModelFileError(f"{path} is not a regular file: name a file that model.save wrote.")
    try:
        with _quietly():
            saved = read(path, RECORDS)
            texts = isinstance(saved, SavedEnsemble | SavedTexts)
            return _restored_texts(saved) if texts else _restored(saved)
    except (ModelFileError, OSError, MemoryError):
        raise
    except Exception as error:  # any failure to decode means that the contents are damaged
        raise ModelFileError(
            f"{path} is no sound model file: {_line(error)}. Save the model again with model.save."
        ) from error


def _line(error: Exception) -> str:
    """Return the message of an error as a short printable line; it may quote the file."""
    text = " ".join(str(error)[:400].split()).rstrip(".")
    return "".join(letter if letter.isprintable() else "?" for letter in text)


@contextmanager
def _quietly() -> Iterator[None]:
    """Compute as in a fit, without the warnings that the fit has given already."""
    with warnings.catch_warnings(), np.errstate(all="ignore"), kernels.one_blas_thread():
        warnings.simplefilter("ignore")
        yield


def _params(estimator: EMEstimator, saved: Saved) -> Params:
    """Return the params by the M-step; ValueError if model and estimator do not match."""
    if not estimator._describes(saved.model.family):
        raise ValueError("its parameters are not those of the fit")
    return saved.model.restore(saved.statistics, len(saved.statistics.classes), estimator._width())


def _texts(
    saved: dict[str, SavedEnsemble | SavedTexts],
    weights: dict[str, Any],
    columns: tuple[Column, ...],
) -> dict[str, TextClassifier]:
    """Return the classifiers of text columns; ValueError if they do not match the columns."""
    words = {column.name: column.vectorizer for column in columns if column.vectorizer is not None}
    if set(saved) not in (set(), set(words)) or set(weights) != set(saved):
        raise ValueError("its texts are not those of its columns")
    _check_numbers({f"the weight of {name!r}": weight for name, weight in weights.items()})
    kinds = SavedEnsemble | SavedTexts
    if not all(isinstance(one, kinds) and one.vectorizer is None for one in saved.values()):
        raise ValueError("its texts are not text classifiers")
    kept = [name for name in words if name in saved]  # in their order
    return {name: _restored_texts(replace(saved[name], vectorizer=words[name])) for name in kept}


def _groups(saved: SavedGroups, K: int, columns: tuple[Column, ...]) -> TableClusters:
    """Return clusters of rows; ValueError if they are of other columns or other classes."""
    kept = (saved.mixture,) if isinstance(saved.mixture, Saved) else saved.mixture
    mixtures = _mixtures(kept, ClusterMixture)
    _check_clusters(mixtures, saved, K)
    if not _of(columns, (column for mixture in mixtures for column in mixture.columns_)):
        raise ValueError("its clusters are of other columns")
    return TableClusters(mixtures, saved.shares, saved.weight)


def _text_groups(saved: SavedTextGroups, K: int, words: int) -> TextClusters:
    """Return clusters of texts; ValueError if they are of other words or other classes."""
    mixtures, weights = _mixtures(saved.mixtures, MultinomialMixture), saved.weights
    _check_clusters(mixtures, saved, K)
    columns = {len(weights.columns_), *(mixture.n_features_in_ for mixture in mixtures)}
    if weights.n_features_in_ != words or len(columns) > 1 or weights.length_scale == np.inf:
        raise ValueError("its clusters are of other words")
    return TextClusters(mixtures, saved.shares, saved.weight, weights)


def _mixtures(saved: tuple[Saved, ...], kind: type[M]) -> tuple[M, ...]:
    found = tuple(one for one in map(_restored, saved) if isinstance(one, kind))
    if not found or len(found) < len(saved):
        raise ValueError("its clusters are not mixtures of the right type")
    return found


def _check_clusters(
    mixtures: tuple[Mixture, ...], saved: SavedGroups | SavedTextGroups, K: int
) -> None:
    size = sum(len(mixture._params.class_log_prior) for mixture in mixtures)
    check_array("class distributions of clusters", saved.shares, (size, K), least=1e-300)
    check_array("weight of clusters", np.array(float(saved.weight)), (), least=0.0, most=MOST)


def _check_table_correction(saved: TableCorrection, K: int, columns: tuple[Column, ...]) -> None:
    """Raise ValueError unless a residual regression is of these columns and classes."""
    size = sum(len(column.values) for column in saved.columns)
    _check_correction(saved, size, K)
    names = {column.name for column in saved.columns}
    if not names or len(names) < len(saved.columns) or not _of(columns, saved.columns):
        raise ValueError("its residual regression is of other columns")


def _check_correction(saved: TextLogistic | TableCorrection, size: int, K: int) -> None:
    check_array("coefficients", saved.logs, (size, K), least=-MOST, most=MOST)


def _of(columns: tuple[Column, ...], some: Iterable[Column]) -> bool:
    """Return whether all of `some` are among the columns, numbers binned or not, and no texts."""
    own = {(column.name, column.kind, column.categories) for column in columns}
    return all((c.name, c.kind, c.categories) in own and not c.vectorizer for c in some)


def _check_numbers(numbers: dict[str, Any], least: float = 0.0) -> None:
    """Raise ValueError unless numbers are finite and at least `least`."""
    for name, value in numbers.items():
        if not fits(value, float) or not least <= value < np.inf:
            raise ValueError(f"{name} is {value!r}: expected a number from {least:g} on")


def _restored_texts(saved: SavedEnsemble | SavedTexts) -> TextClassifier:
    """Return the text classifier of a record; ValueError if its parts do not match."""
    if saved.vectorizer is None:
        raise ValueError("it has no words")
    estimator, K = saved.estimator, len(saved.classes)
    if saved.classes.ndim != 1 or not np.array_equal(np.unique(saved.classes), saved.classes):
        raise ValueError("its class names are not sorted and different")
    check_array("class priors", saved.class_shares, (K,), least=0.0)
    _check_numbers({"the weight of unlabelled texts": saved.unlabeled_help.weight})
    words = len(saved.vectorizer.get_feature_names_out())
    if isinstance(saved, SavedTexts):
        estimator.ensemble_ = _early_ensemble(saved, K, words)
    else:
        estimator.ensemble_ = _ensemble(saved, K, words)
    estimator.vectorizer_, estimator.classes_ = saved.vectorizer, saved.classes
    estimator.class_shares_ = saved.class_shares
    estimator.unlabeled_help_, estimator.evaluation_ = saved.unlabeled_help, saved.evaluation
    return estimator


def _ensemble(saved: SavedEnsemble, K: int, words: int) -> Ensemble:
    log_prior, weights = saved.log_prior, saved.weights
    if log_prior.shape != (K,) or not (log_prior < MOST).all() or not (log_prior > -MOST).any():
        raise ValueError("its ensemble is of other classes")
    check_array("weights of the ensemble", weights, (len(saved.parts),), least=0.0, most=MOST)
    parts = tuple(_part(one, K, words) for one in saved.parts)
    if not any(isinstance(part, WordModel) for part in parts):
        raise ValueError("its ensemble has no naive Bayes")
    return Ensemble(parts, weights, log_prior)


def _early_ensemble(saved: SavedTexts, K: int, words: int) -> Ensemble:
    """Return the ensemble of a file of v0.1, whose members have class priors of their own."""
    parts = [_member(one, K, words) for one in saved.members]
    check_array("weights of the ensemble", saved.pool.weights, (len(parts),), least=0.0)
    if saved.pool.shift.shape != (K,) or not parts:
        raise ValueError("its ensemble is of other classes")
    pairs = zip(saved.pool.weights, parts, strict=True)
    log_prior = sum((w * part.model._log_prior for w, part in pairs), saved.pool.shift)
    added: list[Any] = [] if saved.groups is None else [saved.groups]
    if saved.correction is not None:
        logs, weights = saved.correction.logs, saved.correction.weights
        added.append(TextLogistic(logs, np.zeros(K), weights))
    new = SavedEnsemble(
        saved.estimator,
        saved.vectorizer,
        saved.classes,
        saved.class_shares,
        (*saved.members, *added),
        np.append(saved.pool.weights, np.ones(len(added))),
        log_normalize(log_prior[None, :])[0][0],
        saved.unlabeled_help,
        saved.evaluation,
    )
    return _ensemble(new, K, words)


def _part(
    saved: SavedMember | SavedTextGroups | TextLogistic, K: int, words: int
) -> WordModel | TextClusters | TextLogistic:
    if isinstance(saved, SavedMember):
        return _member(saved, K, words)
    if isinstance(saved, SavedTextGroups):
        return _text_groups(saved, K, words)
    _check_correction(saved, len(saved.weights.columns_), K)
    check_array("intercepts", saved.intercepts, (K,), least=-MOST, most=MOST)
    if saved.weights.n_features_in_ != words:
        raise ValueError("its regression is of other words")
    return saved


def _member(saved: SavedMember, K: int, words: int) -> WordModel:
    model = _restored(saved.model)
    if not isinstance(model, MultinomialNB) or len(model.classes_) != K:
        raise ValueError("one of its models is of other classes")
    if saved.weights.n_features_in_ != words or len(saved.weights.columns_) != model.n_features_in_:
        raise ValueError("one of its models is of other words")
    return WordModel(saved.view, saved.weights, model)


def _restored(saved: Saved) -> EMEstimator:
    """Return the estimator of a record; ValueError if its parts do not match."""
    if not isinstance(saved, Saved):
        raise ValueError("it holds no estimator")
    estimator, K = saved.estimator, saved.statistics.classes.size
    if saved.n_features_in < 1 or K < 1:
        raise ValueError("it has no columns or no classes")
    estimator.n_features_in_ = saved.n_features_in
    names = saved.feature_names_in
    if names is not None:
        if names.dtype != object or names.shape != (saved.n_features_in,):
            raise ValueError("the number of its column names is wrong")
        estimator.feature_names_in_ = names
    hints = {**FACTS, **estimator._saved}
    hints |= {"groups_": SavedGroups | None} if "groups_" in hints else {}
    for name, value in saved.more.items():
        if name not in hints or not fits(value, hints[name]):
            raise ValueError(f"{name} is unknown or of the wrong type")
    more = dict(saved.more)
    named = [] if saved.classes is None else saved.classes.tolist()
    if isinstance(more.get("groups_"), SavedGroups):
        more["groups_"] = _groups(more["groups_"], len(named), more.get("_columns", ()))
    if more.get("correction_") is not None:
        _check_table_correction(more["correction_"], len(named), more.get("_columns", ()))
    _check_numbers({n: more[n] for n in ("alpha_", "unlabeled_weight_") if n in more})
    _check_numbers({n: more[n] for n in ("temperature_",) if n in more}, least=1.0)
    if "unlabeled_help_" in more:
        _check_numbers({"the weight of unlabelled rows": more["unlabeled_help_"].weight})
    if "texts_" in more:
        weights = more.get("text_weights_", {})
        more["texts_"] = _texts(more["texts_"], weights, more.get("_columns", ()))
        more["text_weights_"] = {name: weights[name] for name in more["texts_"]}
        if any(text.classes_.tolist() != named for text in more["texts_"].values()):
            raise ValueError("its texts are of other classes")
    estimator._set(more)
    classes: npt.NDArray[Any] = np.arange(K)
    if isinstance(estimator, Classifier):
        classes, order = saved.classes, saved.order  # type: ignore[assignment]
        parts = getattr(estimator, "components_per_class_", 1)
        K, left = divmod(K, max(parts, 1))
        sound = classes is not None and np.array_equal(np.unique(classes), classes)
        if not sound or left or parts < 1 or len(classes) != K:
            raise ValueError(f"its class names are not {K}, sorted and different")
        if order is None or not np.array_equal(np.sort(order), np.arange(K)):
            raise ValueError("the order of its classes is not a permutation")
        estimator.classes_, estimator._named_classes = classes, classes[order]
    elif saved.classes is not None or saved.order is not None:
        raise ValueError("it names classes that it does not have")
    params = _params(estimator, saved)
    estimator._set(estimator._attributes(saved.model, params, saved.statistics))
    if saved.statistics.classes.size > len(classes):  # components have numbers
        classes = np.arange(saved.statistics.classes.size)
    estimator._fitted_on = classes.tolist(), estimator._width()
    return estimator
