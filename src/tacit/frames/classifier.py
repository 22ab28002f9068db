"""`TableClassifier`: naive Bayes for whole tables, with settings chosen by held-out labels.

This is scikit-learn's side: parameters, fitting, prediction, explanation. Model selection is in
`tacit.frames.selection`, the texts of a table have a `tacit.text.classifier` of their own.
"""

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
from tacit.estimators.components import ComponentClassifier, sum_components
from tacit.estimators.explain import Feature
from tacit.families import Family, Gaussian, Given
from tacit.frames.base import ColumnGroup, NamedTerm, PreparedTable, TableEstimator
from tacit.frames.candidates import Candidate
from tacit.frames.clusters import TableClusters
from tacit.frames.columns import NEIGHBOUR_SMOOTHING, Column
from tacit.frames.residual import TableCorrection
from tacit.frames.selection import COMPONENTS, DEFAULT_UNLABELED_WEIGHT, select
from tacit.numerics import (
    Array,
    component_mean,
    log,
    log_normalize,
    mixture_log_constant,
    normalize,
)
from tacit.selection.cross_validation import UnlabeledHelp
from tacit.text.classifier import TextClassifier

__all__ = ["TableClassifier"]


@dataclass(eq=False, repr=False, kw_only=True)
class TableClassifier(ComponentClassifier, DiscreteClassifier, TableEstimator):
    """Naive Bayes for a table as it is: texts, categories, numbers and missing values.

    `X` is a data frame of pandas or polars, an Arrow table or a dict of lists. Feature types are
    inferred by the rules of :func:`tacit.frames.columns.infer` and shown in `columns_`: each column
    of text has a :class:`tacit.TextClassifier` of its own; categories, yes/no (Bernoulli) and
    numbers (normal, or binned) each have a distribution in each class; dates and identifiers are
    left out. Values that are empty, NA, N/A, NaN, null or ? are missing, and so is, when
    predicting, a category that is new.

    Settings are chosen by 5-fold cross-validation on the labelled rows. Unlabelled rows are used if
    that helps; `unlabeled_help_` has the figures. If no class has two labels, none can be held out,
    and the defaults (below) are used; so they are if fewer than 20 can be held out, some rows are
    unlabelled and there are no texts. 20 to 39 held-out labels choose between bins and normal
    numbers, and whether unlabelled rows are used; alpha is 1, and a class has one component.

    Parameters
    ----------
    %(table_parameters)s
    numbers : {"normal", "bins", "auto"}, default="auto"
        The distribution of numbers in a class: normal, with the variance of all rows as a prior
        that weighs one row; or categorical over up to five bins of about equally many rows, where
        each neighbour of a number's bin gets a twelfth of the count. "auto" is bins unless held-out
        labels speak against them.
    texts : {"pooled", "counted"}, default="pooled"
        How texts are modelled: by a :class:`tacit.TextClassifier` (a stacked ensemble), which is
        fitted to a column of text before the others; or by word counts, with a multinomial
        distribution in each class, smoothed by `word_alpha`, in one EM with the other columns. A
        checkpoint keeps the rounds of that EM; members of an ensemble take few rounds each, and a
        resumed fit computes them, and clusters of rows, anew, to the same bits.
    word_labels : dict, default=None
        Words whose class is known, as ``{"hockey": "sport"}``, for texts that are "pooled".
    %(prior_parameters)s
    %(class_parameters)s
    components_per_class : int or "auto", default="auto"
        Components of each class, which is a mixture of so many: columns are independent within a
        component, and need not be within the class. "auto" is 1, or 2, 3 or 5 if there are a dozen
        labels for each. It also fits clusters of rows (`groups_`), if some rows are unlabelled and
        unless held-out labels speak against them, and a residual correction (`correction_`).
        `class_count_` and `class_log_prior_` have an entry for each component, those of a class one
        after the other.
    unlabeled_weight : float or "auto", default="auto"
        Weight of each unlabelled row; 0 leaves them out of the fit. "auto" is 0, 0.1 or 1; 0.1 if
        no label can be held out, or there are only labelled words, or if fewer than 40 can be held
        out, unless these speak against it.
        Unless it is "auto", the columns beside texts have the defaults where they are "auto" (alpha
        1, bins, one component), and `temperature_` is 1.
    %(em_parameters)s

    Attributes
    ----------
    %(table_attributes)s
    texts_ : dict
        The :class:`tacit.TextClassifier` of each column of text, by its name.
    text_weights_ : dict
        The factor of the log-odds of each: 1 if there are no other columns.
    unlabeled_help_ : UnlabeledHelp
        Of "auto": out-of-fold metrics without and with unlabelled rows, and their weight.
    temperature_ : float
        The divisor of the log-odds of the other columns that calibrates the probabilities of
        held-out rows: naive Bayes is overconfident where columns are dependent. The root of the
        number of columns is expected: if held-out labels cannot decide it is that, or twice that
        with clusters and without texts; if they are few (above), that or more.
    alpha_ : float
        The smoothing of categories: 1, 0.1, 0.01 or 0.001 if `alpha` is "auto".
    components_per_class_ : int
        The number of components that each class has.
    groups_ : TableClusters or None
        Clusters of rows, fitted without labels, and their class distributions.
    correction_ : TableCorrection or None
        The residual correction: what each value adds to the log-odds of all these, learnt from
        held-out labels. None if there are none, they are clearly against it, or unless
        `unlabeled_weight` and `components_per_class` are "auto". `top_features` leaves it and the
        clusters out.
    unlabeled_weight_ : float
        The weight of unlabelled rows beside texts.
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
    music (probability 0.553) rather than sport
      prior               -0.016
      text goal           -0.939
      text violin         +0.752
      minutes below 70    +0.498
      text the            -0.083
      total               +0.212
    """

    alpha: Any = "auto"
    numbers: str = "auto"
    texts: str = "pooled"
    word_labels: Any = None
    components_per_class: Any = "auto"
    unlabeled_weight: Any = "auto"

    _saved: ClassVar[dict[str, Any]] = {
        **TableEstimator._saved,
        **ComponentClassifier._saved,
        "label_name_": str | None,
        "texts_": dict,
        "text_weights_": dict,
        "unlabeled_help_": UnlabeledHelp,
        "temperature_": float,
        "alpha_": float,
        "unlabeled_weight_": float,
        "groups_": TableClusters | None,
        "correction_": TableCorrection | None,
    }
    _neighbour_smoothing: ClassVar[float] = NEIGHBOUR_SMOOTHING
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "unlabeled_weight": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "numbers": [StrOptions({"normal", "bins", "auto"})],
        "texts": [StrOptions({"pooled", "counted"})],
        "word_labels": [Mapping, None],
    }

    def _smoothing(self) -> float:
        return getattr(self, "alpha_", 1.0) if self.alpha == "auto" else float(self.alpha)

    def _with_alpha(self, alpha: float) -> Self:
        """Return a supervised model with another alpha, from the same counts."""
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

    # Texts: the log-odds of their classifiers are a fixed part of the model.

    def _text(self, column: Column) -> TextClassifier | None:
        """Return the fitted classifier of a column of text, if it has one."""
        text: TextClassifier | None = getattr(self, "texts_", {}).get(column.name)
        return text if text is None or text.vectorizer_ is column.vectorizer else None

    def _text_group(self, column: Column) -> ColumnGroup:
        text = self._text(column)
        if text is None:
            return super()._text_group(column)
        return ColumnGroup(
            f"text {column.name}", Given(self._n_components), [column], len(text.classes_)
        )

    def _block(self, column: Column, encoded: Any) -> Any:
        text = self._text(column)
        if text is None:
            return super()._block(column, encoded)
        return self.text_weights_[column.name] * text._evidence(encoded)

    def _given_prior(self, K: int) -> Array | None:
        texts = list(getattr(self, "texts_", {}).values())
        if not texts or self.class_prior is not None or not self.fit_prior:
            return super()._given_prior(K)
        return np.asarray(np.exp(texts[0]._log_prior))

    def _has_blocks(self, table: PreparedTable) -> bool:
        return super()._has_blocks(table) and table.texts is self.texts_

    def _check_shape(self, X: Any, reset: bool) -> PreparedTable:
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
        self, X: PreparedTable, labels: Labels, weight: Array, quick: bool = False
    ) -> PreparedTable:
        """Fit a classifier to each column of text, and return the table with their log-odds."""
        word_labels = dict(self.word_labels or {})
        texts, left = dict[str, TextClassifier](), dict(word_labels)
        for column in X.columns:
            vectorizer = column.vectorizer
            if vectorizer is not None:
                words = [word for word in word_labels if vectorizer.transform([word]).nnz]
                text = TextClassifier(
                    word_labels={word: word_labels[word] for word in words},
                    unlabeled_weight=0.0 if quick else self.unlabeled_weight,
                    random_state=self.random_state,
                    n_jobs=self.n_jobs,
                )
                counts = X.encoded[column.name]
                text._fit(vectorizer, counts, labels, weight, quick, self.callback)
                texts[column.name] = text
                left = {word: label for word, label in left.items() if word not in words}
        if left:
            raise ValueError(f"word_labels names {sorted(left)}: expected words that texts have.")
        if not texts:
            return X
        self.texts_, self.text_weights_ = texts, dict.fromkeys(texts, 1.0)
        return self._with_blocks(replace(X, blocks=(), texts=texts))

    def _weigh_unlabelled(
        self, X: PreparedTable, labels: Labels, weight: Array, first: bool
    ) -> tuple[PreparedTable, float]:
        given, batches = self.unlabeled_weight, self.__dict__.pop("_batches", False)
        if not first or self._warm:  # the settings of the first fit stay
            was = getattr(self, "unlabeled_weight_", 1.0)  # which old files do not have
            return X, was if given == "auto" else float(given)
        for name in ("unlabeled_help_", "_cut_short"):  # of an earlier fit
            self.__dict__.pop(name, None)
        self.temperature_, self.groups_, self.correction_ = 1.0, None, None
        self.alpha_ = 1.0 if self.alpha == "auto" else float(self.alpha)
        if self.word_labels and self.texts != "pooled":
            raise ValueError('word_labels need texts="pooled".')
        new, known = self.texts == "pooled" and not X.texts, bool((labels.codes >= 0).any())
        # Without labelled rows the fit is unsupervised, beside the log-odds of texts if any.
        unlabeled = DEFAULT_UNLABELED_WEIGHT if self.word_labels else 1.0
        parts = 1 if self.components_per_class == "auto" else int(self.components_per_class)
        try:
            X = self._with_texts(X, labels, weight) if new else X
            chosen = Candidate(self.alpha_, self.numbers != "normal", unlabeled, parts)
            if self.word_labels and not known:  # other columns may all be copies of one
                others = sum(c.kind not in ("text", "out") for c in X.columns)
                self.temperature_ = max(float(others), 1.0)
            if given != "auto":
                chosen = chosen._replace(unlabeled_weight=float(given) if known else unlabeled)
            elif known:
                more = () if batches or self.components_per_class != "auto" else COMPONENTS
                default = chosen._replace(unlabeled_weight=0.0)
                best = select(self, X, labels, weight, default, more)
                X = self._with_bins(X, best.candidate.bins)
                chosen, self.temperature_ = best.candidate, best.temperature
                self.text_weights_, self.groups_ = best.text_weights, best.clusters
                self.correction_ = best.correction
                if best.help is not None:
                    self.unlabeled_help_ = best.help
        except KeyboardInterrupt:  # a model without selection is better than none
            self._cut_short = True
            self.unlabeled_help_ = UnlabeledHelp(None, None, 0.0)
            new = new and not X.texts
            X = self._with_texts(X, labels, weight, quick=True) if new else X
            unlabeled = 0.0 if known else unlabeled
            chosen = Candidate(self.alpha_, self.numbers != "normal", unlabeled, parts)
        self.alpha_, self.components_per_class_ = chosen.alpha, chosen.components
        self.unlabeled_weight_: float = chosen.unlabeled_weight
        self._columns = X.columns
        weights = list(self.text_weights_.values())  # of the first blocks
        scaled = map(np.multiply, weights, X.blocks)
        return replace(X, blocks=(*scaled, *X.blocks[len(weights) :])), chosen.unlabeled_weight

    def _expand_components(
        self, X: PreparedTable, labels: Labels, weight: Array, prior: Array | None
    ) -> tuple[Labels, Array | None, Any]:
        parts, prior, init = super()._expand_components(X, labels, weight, prior)
        if self._added and (parts.codes < 0).any():  # for `_distributions`
            self._added_to_fit = self._added_log_odds(X)
        if self.texts_ and (labels.codes < 0).all() and isinstance(init, str) and prior is not None:
            joint = sum(X.blocks[: len(self.texts_)], log(prior))  # which names the classes
            init = np.maximum(normalize(joint)[0], np.finfo(np.float64).tiny)
        return parts, prior, init

    def _choose_components(self, X: PreparedTable, labels: Labels, weight: Array) -> int:
        return self._n_components  # selected with all else

    def _single_component(self, labels: Labels) -> Self:
        whole: Self = (
            super()._single_component(labels).set_params(alpha=self.alpha_, word_labels=None)
        )
        return whole

    def _check_batches(self) -> None:
        if self.components_per_class not in (1, "auto") or self._n_components != 1:
            raise ValueError("partial_fit needs components_per_class=1: use fit on all rows.")
        self._batches = True

    # Predictions: a temperature divides log-odds, but not those of texts and, beside them, priors.

    def _component_posterior(self, X: PreparedTable) -> Array:
        rows = Rows(self._model.family.encode(X))
        joint = self._model.predict_rows(self._params, rows, "joint")[0].reshape(
            -1, self._n_components
        )
        impossible = np.isneginf(joint).all(axis=1, keepdims=True)
        return normalize(np.where(impossible, 0.0, joint))[0]

    def _prior_term(self, within: Array) -> Array:
        log_prior = mixture_log_constant(super()._prior_term(within), within)
        fixed = self._log_prior if self.texts_ else np.zeros(len(log_prior))
        return self._tempered(log_prior, fixed)

    def _untempered(self, parts: Sequence[Any]) -> Array:
        """Return the part of log p(x, y) without temperature: 0, or log p(y) plus texts."""
        if not self.texts_:
            return np.zeros((1, len(self.classes_)))
        texts = [
            part.values
            for group, part in zip(self._groups(), parts, strict=True)
            if isinstance(group.family, Given)
        ]
        return np.asarray(sum(texts, self._log_prior[None, :]))

    @property
    def _added(self) -> list[TableClusters | TableCorrection]:
        """Clusters and correction, whose log-odds are added; old files have neither."""
        both = (getattr(self, name, None) for name in ("groups_", "correction_"))
        return [one for one in both if one is not None]

    def _added_log_odds(self, X: PreparedTable) -> Array:
        """Return the log-odds of clusters and correction, shape (n, K)."""
        return np.asarray(sum(one.evidence(X) for one in self._added))

    @property
    def _inverse_temperature(self) -> float:
        return 1.0 / getattr(self, "temperature_", 1.0)

    def _tempered(self, joint: Array, fixed: Array) -> Array:
        """Return log p(x, y) with all but a fixed part divided by the temperature."""
        impossible = np.isneginf(fixed)
        rest = np.where(impossible, -np.inf, joint - np.where(impossible, 0.0, fixed))
        return np.asarray(np.where(impossible, 0.0, fixed) + self._inverse_temperature * rest)

    def _prior_of_posteriors(self, prior: Array) -> Array:
        tempered = prior ** (1.0 if self.texts_ else self._inverse_temperature)
        return np.asarray(tempered / tempered.sum())

    def _predict_rows(self, X: Any, output: kernels.Output) -> tuple[Array, Array]:
        check_is_fitted(self)
        if self._inverse_temperature == 1.0 and not self._added:
            return super()._predict_rows(X, output)
        with kernels.one_blas_thread(), kernels.kernel_threads(self.n_jobs):
            X = self._check_shape(X, reset=False)
            joint, _ = super()._predict_rows(X, "joint")
            fixed = self._untempered(self._model.family.encode(X).parts)
            result = self._tempered(joint, fixed)
            if self._added:
                result += self._added_log_odds(X)
        log_p = log_normalize(joint)[1]
        if output != "joint":
            result = (normalize if output == "posterior" else log_normalize)(result)[0]
            prior = self._log_prior
            result[np.isneginf(log_p)] = prior if output == "log_posterior" else np.exp(prior)
        return result, log_p

    def _distributions(
        self, labels: Labels, others: Rows, which: npt.NDArray[np.intp] | None
    ) -> Array:
        used = [column.name for column in self._columns if column.kind != "out"]
        # A text alone is its classifier, which has tempered what it filled in.
        if len(used) == 1 and used[0] in self.texts_ and not self.warm_start:
            return np.array(self.texts_[used[0]].label_distributions_)
        result = super()._distributions(labels, others, which)
        unknown = labels.codes < 0
        added = self.__dict__.pop("_added_to_fit", np.zeros((len(unknown), 1)))
        if (self._inverse_temperature == 1.0 and not self._added) or not unknown.any():
            return result
        joint = self._model.predict_rows(self._params, Rows(others.features), "joint")[0]
        joint = sum_components(joint, self._n_components)
        joint = self._tempered(joint, self._untempered(cast(Blocks, others.features).parts))
        joint = (joint if which is None else joint[which]) + added[unknown]
        if labels.evidence is not None:
            joint = joint + labels.evidence[unknown][:, :: self._n_components]
        p, log_p = normalize(joint)
        result[unknown] = np.where(np.isneginf(log_p)[:, None], result[unknown], p)
        return result

    # Explanations, and what a column of text adds to them.

    def _terms(self, X: PreparedTable) -> tuple[Array, list[NamedTerm]]:
        constant, terms = super()._terms(X)
        value_of = {column: value for column, value, _ in terms}  # numbers keep one name
        for one in self._added:
            own, more = one.terms(X)
            constant = constant + own
            terms += [(column, value_of.get(column, value), logs) for column, value, logs in more]
        total: dict[tuple[str, str], Any] = {}
        for column, value, logs in terms:
            total[column, value] = total.get((column, value), 0.0) + logs
        return constant, [(*name, logs) for name, logs in total.items()]

    def _group_terms(
        self,
        X: PreparedTable,
        within: Array,
        group: ColumnGroup,
        family: Family,
        params: Any,
        block: Any,
    ) -> tuple[Any, list[NamedTerm]]:
        text = self._text(group.columns[0])
        if text is None:
            constant, terms = super()._group_terms(X, within, group, family, params, block)
            factor = self._inverse_temperature
            means = (factor * component_mean(logs, within) for _, _, logs in terms)
            return constant, [(*term[:2], mean) for term, mean in zip(terms, means, strict=True)]
        name = group.columns[0].name
        weight = self.text_weights_[name]
        log_prior, by_word = text._terms(X.encoded[name])
        constant = weight * (log_prior - text._log_prior)
        return constant, [(name, word, weight * logs) for word, logs in by_word]

    def _group_features(
        self, group: ColumnGroup, family: Family, params: Any, statistics: Any, prior: Array, n: int
    ) -> list[list[Feature]]:
        text = self._text(group.columns[0])
        name, factor = group.columns[0].name, self._inverse_temperature
        if text is None:
            features = super()._group_features(group, family, params, statistics, prior, n)
        else:
            factor = self.text_weights_[name]
            features = [text.top_features(label, n) for label in text.classes_.tolist()]
            features = [[feature._replace(column=name) for feature in own] for own in features]
        return [
            [
                f._replace(log_odds=factor * f.log_odds, strength=factor * factor * f.strength)
                for f in own
            ]
            for own in features
        ]

    def _drawn_counts(
        self,
        column: Column,
        drawn: Array,
        labels: npt.NDArray[np.intp],
        rng: np.random.RandomState,
    ) -> Array:
        text = self._text(column)
        return drawn if text is None else text._sample_counts(labels // self._n_components, rng)
