"""Labels as people have them: missing, given, candidate and soft. Encoding only, no model."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import DataConversionWarning

from tacit.data.missing import is_na
from tacit.numerics import Array, Index, log

__all__ = ["Labels", "all_classes", "encode", "given_labels", "is_missing"]

# Whole numbers that lie closer together than this are looked up, others are searched for.
MOST_PLACES = 1 << 16


@dataclass(frozen=True)
class Labels:
    """What is known of the label of each row.

    Attributes
    ----------
    classes : ndarray of shape (K,)
        The class names, sorted.
    codes : ndarray of shape (n,)
        The class of each row whose label is known, -1 elsewhere.
    evidence : ndarray of shape (n, K), or None
        Log evidence, at most 0; None where `codes` says everything.
    """

    classes: npt.NDArray[Any]
    codes: npt.NDArray[np.intp]
    evidence: Array | None = None

    @property
    def unknown(self) -> npt.NDArray[np.bool_]:
        """The rows of whose label nothing is known."""
        unknown = self.codes < 0
        return unknown if self.evidence is None else unknown & ~self.evidence.any(axis=1)

    @property
    def known(self) -> npt.NDArray[Any]:
        """What `encode` takes for them, classes being numbers: codes, or evidence."""
        return self.codes if self.evidence is None else np.exp(self.evidence)

    def of(self, rows: Index) -> Labels:
        """Return those of some rows."""
        evidence = None if self.evidence is None else self.evidence[rows]
        return Labels(self.classes, self.codes[rows], evidence)

    def log_evidence(self) -> Array:
        """Return the log evidence of every row: 0 and -inf where the label is known."""
        if self.evidence is not None:
            return self.evidence
        evidence = np.zeros((len(self.codes), len(self.classes)))
        known = np.flatnonzero(self.codes >= 0)
        evidence[known] = -np.inf
        evidence[known, self.codes[known]] = 0.0
        return evidence


def encode(y: Any, classes: Any = None, missing_label: Any = None) -> Labels:
    """Encode labels, some of which may be missing, or an (n, K) array of evidence.

    NaN, None, pandas' NA and `missing_label` (a value or a list of values) are missing labels.

    Examples
    --------
    >>> encode(["spam", None, "ham"])
    Labels(classes=array(['ham', 'spam'], dtype='<U4'), codes=array([ 1, -1,  0]), evidence=None)
    >>> encode([[0.0, 1.0], [1.0, 1.0]], classes=["ham", "spam"]).codes
    array([ 1, -1])
    """
    known_classes = None if classes is None else _check_classes(classes, missing_label)
    values = as_array(y)
    if values.ndim == 2:
        return _encode_evidence(values, classes, known_classes)
    missing = is_missing(values, missing_label)
    given = _natural(
        values[~missing] if missing.any() else values, keep_objects=hasattr(y, "dtype")
    )
    if known_classes is None:
        if not len(given):
            raise ValueError(
                "Every label is missing. Label some rows, or name the classes with classes=...; to "
                "find clusters without labels, use a mixture such as tacit.MultinomialMixture."
            )
        known_classes = _distinct(given)
        _check_names(known_classes)
        _warn_about_missing(known_classes)
    codes = _codes(given, known_classes)
    if missing.any():
        found, codes = codes, np.full(len(values), -1)
        codes[~missing] = found
    return Labels(known_classes, codes)


def all_classes(y: Any, classes: Any, missing_label: Any, said: Mapping[str, Any] | None) -> Any:
    """Return the classes, with those that labelled words name; None: those in `y`.

    Examples
    --------
    >>> all_classes(["ham", None], None, None, {"hockey": "sport"})
    array(['ham', 'sport'], dtype='<U5')
    """
    if not said:
        return classes
    values = as_array(y)
    if is_missing(as_array(list(said.values())), missing_label).any():
        raise ValueError(f"word_labels has a missing label: {dict(said)!r}.")
    if values.ndim > 1:
        raise ValueError("word_labels go with labels, not with evidence: y has two axes.")
    return encode([*values.tolist(), *said.values()], classes, missing_label).classes


def given_labels(
    y: Any, missing_label: Any = None
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
    """Return the labels that are given, of the type that they have in common, and where they are.

    Examples
    --------
    >>> given_labels(np.array([3, None, 4], dtype=object))
    (array([3, 4]), array([ True, False,  True]))
    """
    values = as_array(y)
    if values.ndim == 2:
        raise ValueError(f"y has shape {values.shape}: expected one label a row.")
    known = ~is_missing(values, missing_label)
    return _natural(values[known], keep_objects=False), known


def is_missing(y: npt.NDArray[Any], missing_label: Any = None) -> npt.NDArray[np.bool_]:
    """Return where labels are missing.

    Examples
    --------
    >>> is_missing(np.array(["a", "?", None], dtype=object), missing_label="?")
    array([False,  True,  True])
    """
    several = isinstance(missing_label, list | tuple | set | np.ndarray)
    marks = list(missing_label) if several else [missing_label]
    if y.dtype.kind == "O":  # one at a time: pandas' NA == anything is NA, not a truth value
        return np.array([is_na(v) or any(v == mark for mark in marks) for v in y], dtype=bool)
    missing = np.isnan(y) if y.dtype.kind == "f" else np.zeros(len(y), dtype=bool)
    for mark in marks:
        if mark is not None and isinstance(mark, str) == (y.dtype.kind == "U"):
            missing |= y == mark
    return missing


def as_array(y: Any) -> npt.NDArray[Any]:
    """Return labels or evidence as an array; a list keeps its entries as they are."""
    if isinstance(getattr(y, "dtype", None), np.dtype):
        array = np.asarray(y)
    else:  # lists, frames, and pandas' own dtypes, whose NA NumPy does not know
        array = np.asarray(y, dtype=object)
    if array.ndim == 2 and array.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected. Please change the shape "
            "of y to (n_samples,), for example using ravel().",
            DataConversionWarning,
            stacklevel=2,
        )
        array = array.ravel()
    if array.ndim not in (1, 2):
        raise ValueError(
            f"y has shape {array.shape}: expected one label a row, or an (n, K) array of evidence."
        )
    if array.ndim == 1 and array.dtype.kind == "O" and any(map(_is_list, array)):
        raise ValueError("y holds lists of different lengths: expected one label a row.")
    return array


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple | np.ndarray)


def _natural(given: npt.NDArray[Any], keep_objects: bool) -> npt.NDArray[Any]:
    """Give labels that came as Python objects the dtype that they have in common."""
    if given.dtype.kind != "O" or not len(given):
        return given
    kinds = {isinstance(value, str) for value in given}
    if len(kinds) > 1:
        raise TypeError(
            "y mixes text and numbers as labels: write them all as text, and mark missing labels "
            "by None, NaN or missing_label=..."
        )
    return given if keep_objects and kinds == {True} else np.array(given.tolist())


def _check_classes(classes: Any, missing_label: Any) -> npt.NDArray[Any]:
    array = as_array(classes)
    if array.ndim != 1 or not len(array):
        raise ValueError(f"classes has shape {array.shape}: expected a list of class names.")
    if is_missing(array, missing_label).any():
        raise ValueError(f"classes names a missing label as a class: {array.tolist()}.")
    array = _natural(array, keep_objects=hasattr(classes, "dtype"))
    unique = np.unique(array)
    if len(unique) < len(array):
        raise ValueError(f"classes names a class twice: {array.tolist()}.")
    return unique


def _check_names(classes: npt.NDArray[Any]) -> None:
    """Refuse numbers that measure something; labels are text or whole numbers."""
    if classes.dtype.kind == "f":
        if np.isinf(classes).any():
            raise ValueError("y contains infinity: expected labels, missing ones as NaN or None.")
        if (classes != np.floor(classes)).any():
            broken = classes[classes != np.floor(classes)][0]
            raise ValueError(
                f"Unknown label type: continuous. Labels are text or whole numbers; found {broken}."
            )
    elif classes.dtype.kind not in "biuUO":
        kind = "bytes" if classes.dtype.kind == "S" else classes.dtype
        raise ValueError(f"Unknown label type: {kind}. Labels are text or whole numbers.")


def _warn_about_missing(classes: npt.NDArray[Any]) -> None:
    """Warn of classes that look like marks of a missing label."""
    if classes.dtype.kind == "U" and "nan" in classes:
        warnings.warn(
            "y holds the text 'nan' as a class: NumPy writes NaN so in an array of text. If it "
            "marks a missing label, set missing_label='nan'.",
            UserWarning,
            stacklevel=2,
        )
    if classes.dtype.kind in "if" and -1 in classes and len(classes) > 2:
        warnings.warn(
            "y holds -1 beside other integers, and -1 is an ordinary class here. If it marks a "
            "missing label, set missing_label=-1; if it is a class, name it with classes=...",
            UserWarning,
            stacklevel=2,
        )


def _distinct(given: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the different labels in order; whole numbers that lie close are not sorted."""
    if _is_whole(given):
        least, most = int(given.min()), int(given.max())
        if most - least < MOST_PLACES:
            present = np.flatnonzero(np.bincount(_less(given, least)))
            return np.asarray(present + least, dtype=given.dtype)
    return np.unique(given)


def _is_whole(values: npt.NDArray[Any]) -> bool:
    return values.dtype.kind in "iu" and values.dtype != np.uint64


def _less(values: npt.NDArray[Any], least: int) -> npt.NDArray[np.intp]:
    return (
        np.subtract(values, least, dtype=np.intp) if least else values.astype(np.intp, copy=False)
    )


def _codes(given: npt.NDArray[Any], classes: npt.NDArray[Any]) -> npt.NDArray[np.intp]:
    if _is_whole(given) and _is_whole(classes):  # no need to sort them again
        least, most = int(classes[0]), int(classes[-1])
        within = given.min(initial=least) >= least and given.max(initial=most) <= most
        if within and most - least < MOST_PLACES:
            place_of = np.full(most - least + 1, -1)
            place_of[_less(classes, least)] = np.arange(len(classes))
            codes: npt.NDArray[np.intp] = place_of[_less(given, least)]
            if codes.min(initial=0) >= 0:
                return codes
        elif within:
            codes = np.searchsorted(classes, given)
            if (classes[codes] == given).all():
                return codes
    unique, inverse = np.unique(given, return_inverse=True)
    place = {name: code for code, name in enumerate(classes.tolist())}
    strange = [name for name in unique.tolist() if name not in place]
    if strange:
        raise ValueError(
            f"The target label(s) {strange} in y do not exist in the initial classes "
            f"{classes.tolist()}: add them to classes=..., or mark them by missing_label=..."
        )
    return np.array([place[name] for name in unique.tolist()], dtype=np.intp)[inverse]


def _encode_evidence(
    y: npt.NDArray[Any], classes: Any, known_classes: npt.NDArray[Any] | None
) -> Labels:
    """Encode non-negative evidence; a row's scale says nothing, so its largest entry becomes 1."""
    if y.dtype.kind == "O":
        y = np.where(np.vectorize(is_na)(y), np.nan, y)
    try:
        evidence = y.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"y is an (n, K) array of evidence but not numeric: {error}.") from None
    names = np.arange(evidence.shape[1]) if known_classes is None else np.asarray(classes)
    if len(names) != evidence.shape[1]:
        raise ValueError(
            f"y has {evidence.shape[1]} columns of evidence but classes names {len(names)} classes."
        )
    missing = np.isnan(evidence)
    evidence[missing.all(axis=1)] = 1.0  # nothing is known
    _refuse(
        ~(evidence >= 0).all(axis=1) | np.isinf(evidence).any(axis=1),
        "must be non-negative and finite (a row of NaN alone means: not known)",
    )
    _refuse(~evidence.any(axis=1), "is all zero, which rules out every class")
    order = np.argsort(names)
    evidence = (evidence / evidence.max(axis=1, keepdims=True))[:, order]
    single = np.count_nonzero(evidence, axis=1) == 1
    codes = np.where(single, evidence.argmax(axis=1), -1)
    informative = ~single & (evidence < 1).any(axis=1)
    return Labels(names[order], codes, log(evidence) if informative.any() else None)


def _refuse(bad: Any, what: str) -> None:
    if bad.any():
        rows = ", ".join(map(str, np.flatnonzero(bad)[:5]))
        raise ValueError(f"Evidence in y {what}; found otherwise in row {rows}.")
