"""Labels for tables: a naive Bayes classifier that settles by hidden labels how to see its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar, Self, cast

import numpy as np
import numpy.typing as npt
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from tacit import kernels
from tacit.data.labels import Labels, all_classes
from tacit.data.rows import Blocks, Rows
from tacit.estimators.classifier import DiscreteClassifier
from tacit.estimators.components import ComponentClassifier, joined
from tacit.estimators.explain import Feature
from tacit.families import Family, Gaussian, Given
from tacit.frames.base import Group, Prepared, TableKind
from tacit.frames.candidates import Setting
from tacit.frames.clusters import Groups
from tacit.frames.columns import BESIDE, Column
from tacit.frames.residual import TableCorrection
from tacit.frames.selection import COMPONENTS, UNTRIED, settle
from tacit.numerics import Array, log, log_normalize, log_of_parts, mean_of_parts, normalize
from tacit.selection.cross_validation import UnlabeledHelp
from tacit.text.classifier import TextClassifier

__all__ = ["TableClassifier"]


@dataclass(eq=False, repr=False, kw_only=True)
class TableClassifier(ComponentClassifier, DiscreteClassifier, TableKind):
    """Naive Bayes for a table as it is: texts, categories, numbers and gaps side by side.

    `X` is a data frame of pandas or polars, an Arrow table or a dict of lists. What each column is,
    is inferred by the rules of :func:`tacit.frames.columns.infer` and shown in `columns_`: each
    column of text has a :class:`tacit.TextClassifier` of its own for its words;
    categories, yes/no (Bernoulli) and numbers (normal, or cut into bins) each have a distribution
    of their own in each class; dates and identifiers are left out. Cells that are empty, NA, N/A,
    NaN, null or ? are missing, and so is, when predicting, a category that is new.

    How columns are seen and weighed is settled by hidden labels: 5 times a fifth of the labelled
    rows takes no part, and that is chosen under which their labels are most probable. (With up to
    5,000 rows and no texts this is done three times, in other parts, and averaged.) Rows without
    a label are used if that helps; `unlabeled_help_` says what came of it. Where no class has two
    labels, none can be hidden: then what is usual is done (below), and so it is if fewer than 20
    are hidden, some rows have no label and there are no texts. 20 to 39 choose between bins and
    normal numbers and what becomes of rows without a label; alpha is 1, a class has one component.

    Parameters
    ----------
    %(table_parameters)s
    numbers : {"normal", "bins", "auto"}, default="auto"
        How numbers are distributed in a class: normally, as if it had one row more that lies as
        wide as all rows do; or with a share for each of up to five bins that hold about equally
        many rows, where a twelfth of a number counts for each of the bins beside its own. "auto" is
        bins unless hidden labels speak against.
    texts : {"pooled", "counted"}, default="pooled"
        What is made of words: the evidence of a :class:`tacit.TextClassifier`, which is fitted to
        a column of text before the others; or counts, which have a multinomial distribution in each
        class, smoothed by `word_alpha`, and a part in EM together with the other columns. A
        checkpoint keeps the rounds of that EM; the models that are pooled take few rounds each, and
        a resumed fit finds them, and groups of rows, anew, to the same bits.
    word_labels : dict, default=None
        Words whose class is known, as ``{"hockey": "sport"}``, for texts that are "pooled".
    %(prior_parameters)s
    %(class_parameters)s
    components_per_class : int or "auto", default="auto"
        Of how many components each class is a mixture, each with distributions of its own: within
        one, columns are independent, within the class they need not be. "auto" is 1, or 2, 3 or 5
        if there are a dozen labels for each. It also finds groups of rows that all classes share
        (`groups_`), if some rows have no label, and leaves them out again if hidden labels speak
        against them, and what puts right what all of it gets wrong (`correction_`). `class_count_`
        and `class_log_prior_` have an entry for each component, those of a class one after the
        other.
    unlabeled_weight : float or "auto", default="auto"
        Weight of each row of whose label nothing is known; 0 leaves them out of the fit. "auto" is
        0, 0.1 or 1; 0.1 if no label can be hidden, or there are only those of words, or if fewer
        than 40 can be hidden, unless these speak against it.
        Unless it is "auto", the columns beside texts are seen as usual: alpha is 1, numbers are in
        bins and classes have one component where those are "auto", and `temperature_` is 1.
    %(em_parameters)s

    Attributes
    ----------
    %(table_attributes)s
    texts_ : dict
        The :class:`tacit.TextClassifier` of each column of text, by its name.
    text_weights_ : dict
        By what the log-odds of each are multiplied: 1 if there are no other columns.
    unlabeled_help_ : UnlabeledHelp
        Of "auto": what the model finds without and with rows that have no label, and the weight.
    temperature_ : float
        By which the log-odds of the other columns are divided, so that probabilities are right
        where labels were hidden: naive Bayes is too sure of itself where columns hang together.
        The root of the number of columns is expected: if hidden labels cannot tell it is that, or
        twice that where groups have a say and texts do not; if they are few (above), that or more.
    alpha_ : float
        The smoothing of categories: 1, 0.1, 0.01 or 0.001 if `alpha` is "auto".
    components_per_class_ : int
        The number of components that each class has.
    groups_ : Groups or None
        Groups of rows that are alike, found without labels, and the classes that they lean to.
    correction_ : TableCorrection or None
        What each cell adds to put right what all these get wrong, by hidden labels; None if none
        could be hidden, these are clearly against it, or unless `unlabeled_weight` and
        `components_per_class` are "auto". `top_features` leaves it and the groups out.
    unlabeled_weight_ : float
        The weight of rows without a label beside texts.
    label_name_ : str or None
        The name of `y`, if it had one.
    %(label_attributes)s
    %(em_attributes)s

    Examples
    --------
    >>> from tacit import TableClassifier
    >>> table = {"text": ["a late goal won the cup", "the violin and the cello", "goal in the cup",
    ...                   "cello and violin, played slowly"], "minutes": [90, 50, 100, None]}
    >>> model = TableClassifier().fit(table, ["sport", "music", None, None])
    >>> [(column.name, column.kind) for column in model.columns_]
    [('text', 'text'), ('minutes', 'number')]
    >>> model.transduction_.tolist()
    ['sport', 'music', 'sport', 'music']
    >>> print(model.explain({"text": "a goal for the violin", "minutes": 50}, "music"))
    music (probability 0.575) rather than sport
      before              -0.007
      text goal           -0.779
      text violin         +0.678
      minutes below 70    +0.497
      text the            -0.086
      together            +0.304
    """

    alpha: Any = "auto"
    numbers: str = "auto"
    texts: str = "pooled"
    word_labels: Any = None
    components_per_class: Any = "auto"
    unlabeled_weight: Any = "auto"

    _saved: ClassVar[dict[str, Any]] = {
        **TableKind._saved,
        **ComponentClassifier._saved,
        "label_name_": str | None,
        "texts_": dict,
        "text_weights_": dict,
        "unlabeled_help_": UnlabeledHelp,
        "temperature_": float,
        "alpha_": float,
        "unlabeled_weight_": float,
        "groups_": Groups | None,
        "correction_": TableCorrection | None,
    }
    _beside: ClassVar[float] = BESIDE
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "unlabeled_weight": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "numbers": [StrOptions({"normal", "bins", "auto"})],
        "texts": [StrOptions({"pooled", "counted"})],
        "word_labels": [Mapping, None],
    }

    def _smoothing(self) -> float:
        return getattr(self, "alpha_", 1.0) if self.alpha == "auto" else float(self.alpha)

    def _smoothed(self, alpha: float) -> Self:
        """Return a model of labelled rows alone with another alpha; what tells of its fit stays."""
        other = copy(self)
        other.alpha = other.alpha_ = alpha
        family = other._family().adopt(self._model.family)
        model, counts = replace(self._model, family=family), self._statistics
        other._set(other._attributes(model, model.maximize(counts), counts))
        return other

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to rows of which all, some or none are labelled.

        Parameters
        ----------
        X : table
            A data frame of pandas or polars, an Arrow table or a dict of lists.
        y : array-like of shape (n,) or (n, K)
            The labels, missing ones as NaN, None, NA or `missing_label`; or evidence.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows.

        Returns
        -------
        self
        """
        return super().fit(X, y, sample_weight)

    def _gaussian(self) -> Gaussian:
        return Gaussian(self.var_smoothing, prior_rows=1.0)

    # Texts: what their classifiers say is a part of the model that is not estimated with it.

    def _text(self, column: Column) -> TextClassifier | None:
        """Return the classifier of a column of text, if it has one: not before it is fitted."""
        found: TextClassifier | None = getattr(self, "texts_", {}).get(column.name)
        return found if found is None or found.vectorizer_ is column.vectorizer else None

    def _words(self, column: Column) -> Group:
        text = self._text(column)
        if text is None:
            return super()._words(column)
        return Group(f"text {column.name}", Given(self._parts), [column], len(text.classes_))

    def _block(self, column: Column, cells: Any) -> Any:
        text = self._text(column)
        if text is None:
            return super()._block(column, cells)
        return self.text_weights_[column.name] * text._evidence(cells)

    def _given_prior(self, K: int) -> Array | None:
        texts = list(getattr(self, "texts_", {}).values())
        if not texts or self.class_prior is not None or not self.fit_prior:
            return super()._given_prior(K)
        return np.asarray(np.exp(texts[0]._log_shares))

    def _sees(self, table: Prepared) -> bool:
        return super()._sees(table) and table.texts is self.texts_

    def _check_shape(self, X: Any, reset: bool) -> Prepared:
        new = super()._check_shape(X, reset)
        if reset and not self._warm:
            self.texts_, self.text_weights_ = new.texts, dict.fromkeys(new.texts, 1.0)
        return new

    def _check(
        self, X: Any, y: Any, sample_weight: Any, classes: Any, reset: bool
    ) -> tuple[Any, Labels, Array]:
        if y is not None:
            classes = all_classes(y, classes, self.missing_label, self.word_labels)
        if reset:
            name = getattr(y, "name", None)
            self.label_name_ = None if name is None else str(name)
        return super()._check(X, y, sample_weight, classes, reset)

    def _with_texts(
        self, X: Prepared, labels: Labels, weight: Array, quick: bool = False
    ) -> Prepared:
        """Fit a classifier to each column of text, and return the table with what they say."""
        said = dict(self.word_labels or {})
        found, left = dict[str, TextClassifier](), dict(said)
        for column in X.columns:
            vectorizer = column.vectorizer
            if vectorizer is not None:
                words = [word for word in said if vectorizer.transform([word]).nnz]
                text = TextClassifier(
                    word_labels={word: said[word] for word in words},
                    unlabeled_weight=0.0 if quick else self.unlabeled_weight,
                    random_state=self.random_state,
                    n_jobs=self.n_jobs,
                )
                cells = X.cells[column.name]
                text._fit(vectorizer, cells, labels, weight, quick, self.callback)
                found[column.name] = text
                left = {word: label for word, label in left.items() if word not in words}
        if left:
            raise ValueError(f"word_labels names {sorted(left)}: expected words that texts have.")
        if not found:
            return X
        self.texts_, self.text_weights_ = found, dict.fromkeys(found, 1.0)
        return self._shaped(replace(X, blocks=(), texts=found))

    def _settled(
        self, X: Prepared, labels: Labels, weight: Array, first: bool
    ) -> tuple[Prepared, float]:
        given, batches = self.unlabeled_weight, self.__dict__.pop("_batches", False)
        if not first or self._warm:  # what was settled stays
            was = getattr(self, "unlabeled_weight_", 1.0)  # which old files do not have
            return X, was if given == "auto" else float(given)
        for name in ("unlabeled_help_", "_cut_short"):  # what a fit before left
            self.__dict__.pop(name, None)
        self.temperature_, self.groups_, self.correction_ = 1.0, None, None
        self.alpha_ = 1.0 if self.alpha == "auto" else float(self.alpha)
        if self.word_labels and self.texts != "pooled":
            raise ValueError('word_labels need texts="pooled".')
        new, known = self.texts == "pooled" and not X.texts, bool((labels.codes >= 0).any())
        # Without labels something must decide: rows do, by what texts say of them if there are any.
        untried = UNTRIED if self.word_labels else 1.0
        parts = 1 if self.components_per_class == "auto" else int(self.components_per_class)
        try:
            X = self._with_texts(X, labels, weight) if new else X
            setting = Setting(self.alpha_, self.numbers != "normal", untried, parts)
            if self.word_labels and not known:  # nothing shows that other columns differ: as one
                others = sum(c.kind not in ("text", "out") for c in X.columns)
                self.temperature_ = max(float(others), 1.0)
            if given != "auto":
                setting = setting._replace(unlabeled_weight=float(given) if known else untried)
            elif known:
                more = () if batches or self.components_per_class != "auto" else COMPONENTS
                found = settle(self, X, labels, weight, Setting(*setting[:2], 0.0, parts), more)
                X = self._cut(X, found.setting.bins)
                setting, self.temperature_ = found.setting, found.temperature
                self.text_weights_, self.groups_ = found.text_weights, found.groups
                self.correction_ = found.correction
                if found.help is not None:
                    self.unlabeled_help_ = found.help
        except KeyboardInterrupt:  # what is found at once is better than nothing
            self._cut_short = True
            self.unlabeled_help_ = UnlabeledHelp(None, None, 0.0)
            new = new and not X.texts
            X = self._with_texts(X, labels, weight, quick=True) if new else X
            weight_of = 0.0 if known else untried
            setting = Setting(self.alpha_, self.numbers != "normal", weight_of, parts)
        self.alpha_, self.components_per_class_ = setting.alpha, setting.components
        self.unlabeled_weight_: float = setting.unlabeled_weight
        self._columns = X.columns
        weights = list(self.text_weights_.values())  # of the first blocks
        scaled = map(np.multiply, weights, X.blocks)
        return replace(X, blocks=(*scaled, *X.blocks[len(weights) :])), setting.unlabeled_weight

    def _spread(
        self, X: Prepared, labels: Labels, weight: Array, prior: Array | None
    ) -> tuple[Labels, Array | None, Any]:
        parts, prior, init = super()._spread(X, labels, weight, prior)
        if self._more and (parts.codes < 0).any():  # for `_distributions`
            self._led = self._said_more(X)
        if self.texts_ and (labels.codes < 0).all() and isinstance(init, str) and prior is not None:
            said = sum(X.blocks[: len(self.texts_)], log(prior))  # which names the classes
            init = np.maximum(normalize(said)[0], np.finfo(np.float64).tiny)
        return parts, prior, init

    def _found(self, X: Prepared, labels: Labels, weight: Array) -> int:
        return self._parts  # which is settled with all else

    def _whole(self, labels: Labels) -> Self:
        whole: Self = super()._whole(labels).set_params(alpha=self.alpha_, word_labels=None)
        return whole

    def _check_batches(self) -> None:
        if self.components_per_class not in (1, "auto") or self._parts != 1:
            raise ValueError("partial_fit needs components_per_class=1: use fit on all rows.")
        self._batches = True

    # Predictions: log-odds are made smaller, but not those of texts and, beside them, of shares.

    def _within(self, X: Prepared) -> Array:
        rows = Rows(self._model.family.encode(X))
        joint = self._model.look(self._params, rows, "joint")[0].reshape(-1, self._parts)
        never = np.isneginf(joint).all(axis=1, keepdims=True)
        return normalize(np.where(never, 0.0, joint))[0]

    def _before_cells(self, within: Array) -> Array:
        log_prior = log_of_parts(super()._before_cells(within), within)
        before = self._log_prior if self.texts_ else np.zeros(len(log_prior))
        return self._tempered(log_prior, before)

    def _before(self, parts: Sequence[Any]) -> Array:
        """Return what no temperature touches, of encoded rows: 0, or log p(y) and texts."""
        if not self.texts_:
            return np.zeros((1, len(self.classes_)))
        said = [
            part.values
            for group, part in zip(self._groups(), parts, strict=True)
            if isinstance(group.family, Given)
        ]
        return np.asarray(sum(said, self._log_prior[None, :]))

    @property
    def _more(self) -> list[Groups | TableCorrection]:
        """What says something of the classes beside columns and texts; old files have none."""
        both = (getattr(self, name, None) for name in ("groups_", "correction_"))
        return [one for one in both if one is not None]

    def _said_more(self, X: Prepared) -> Array:
        """Return what it says."""
        return np.asarray(sum(one.evidence(X) for one in self._more))

    @property
    def _sharpness(self) -> float:
        return 1.0 / getattr(self, "temperature_", 1.0)

    def _tempered(self, joint: Array, before: Array) -> Array:
        """Return log p(x, y) with log-odds made smaller."""
        never = np.isneginf(before)
        rest = np.where(never, -np.inf, joint - np.where(never, 0.0, before))
        return np.asarray(np.where(never, 0.0, before) + self._sharpness * rest)

    def _shares_behind(self, prior: Array) -> Array:
        tempered = prior ** (1.0 if self.texts_ else self._sharpness)
        return np.asarray(tempered / tempered.sum())

    def _look(self, X: Any, wanted: kernels.Wanted) -> tuple[Array, Array]:
        check_is_fitted(self)
        if self._sharpness == 1.0 and not self._more:
            return super()._look(X, wanted)
        with kernels.one_blas_thread(), kernels.kernel_threads(self.n_jobs):
            X = self._check_shape(X, reset=False)
            joint, _ = super()._look(X, "joint")
            found = self._tempered(joint, self._before(self._model.family.encode(X).parts))
            if self._more:
                found += self._said_more(X)
        log_p = log_normalize(joint)[1]
        if wanted != "joint":
            found = (normalize if wanted == "posterior" else log_normalize)(found)[0]
            prior = self._log_prior
            found[np.isneginf(log_p)] = prior if wanted == "log_posterior" else np.exp(prior)
        return found, log_p

    def _distributions(
        self, labels: Labels, others: Rows, which: npt.NDArray[np.intp] | None
    ) -> Array:
        found = super()._distributions(labels, others, which)
        unknown = labels.codes < 0
        led = self.__dict__.pop("_led", np.zeros((len(unknown), 1)))
        if (self._sharpness == 1.0 and not self._more) or not unknown.any():
            return found
        joint = self._model.look(self._params, Rows(others.features), "joint")[0]
        joint = joined(joint, self._parts)
        joint = self._tempered(joint, self._before(cast(Blocks, others.features).parts))
        joint = (joint if which is None else joint[which]) + led[unknown]
        if labels.evidence is not None:
            joint = joint + labels.evidence[unknown][:, :: self._parts]
        p, log_p = normalize(joint)
        found[unknown] = np.where(np.isneginf(log_p)[:, None], found[unknown], p)
        return found

    # What is said of a row, and of a column of text.

    def _terms(self, X: Prepared) -> tuple[Array, list[tuple[str, str, Array]]]:
        log_prior, said = super()._terms(X)
        cell = {column: value for column, value, _ in said}  # as it is called already
        for one in self._more:
            before, more = one.terms(X)
            log_prior = log_prior + before
            said += [(column, cell.get(column, value), logs) for column, value, logs in more]
        together: dict[tuple[str, str], Any] = {}
        for column, value, logs in said:
            together[column, value] = together.get((column, value), 0.0) + logs
        return log_prior, [(*name, logs) for name, logs in together.items()]

    def _said(
        self, X: Prepared, within: Array, group: Group, family: Family, params: Any, block: Any
    ) -> tuple[Any, list[tuple[str, str, Array]]]:
        text = self._text(group.columns[0])
        if text is None:
            before, said = super()._said(X, within, group, family, params, block)
            by = self._sharpness
            means = (by * mean_of_parts(logs, within) for _, _, logs in said)
            return before, [(*of[:2], mean) for of, mean in zip(said, means, strict=True)]
        name = group.columns[0].name
        weight = self.text_weights_[name]
        log_prior, terms = text._terms(X.cells[name])
        before = weight * (log_prior - text._log_shares)
        return before, [(name, word, weight * logs) for word, logs in terms]

    def _marked(
        self, group: Group, family: Family, params: Any, statistics: Any, share: Array, n: int
    ) -> list[list[Feature]]:
        text = self._text(group.columns[0])
        name, by = group.columns[0].name, self._sharpness
        if text is None:
            found = super()._marked(group, family, params, statistics, share, n)
        else:
            by = self.text_weights_[name]
            found = [text.top_features(label, n) for label in text.classes_.tolist()]
            found = [[feature._replace(column=name) for feature in own] for own in found]
        return [
            [f._replace(log_odds=by * f.log_odds, strength=by * by * f.strength) for f in own]
            for own in found
        ]

    def _drawn_words(
        self, column: Column, drawn: Array, labels: Any, rng: np.random.RandomState
    ) -> Array:
        text = self._text(column)
        return drawn if text is None else text._drawn(labels // self._parts, rng)
