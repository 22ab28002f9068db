"""What the estimators of whole tables share: data frames in, blocks of numbers for `Mixed` out.

`TableEstimator` groups columns by family, encodes rows and explains predictions. Feature types are
inferred in `tacit.frames.columns`; the estimators are in `classifier` and `mixture`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from tacit import kernels
from tacit.data.rows import Joined
from tacit.estimators.base import EMEstimator
from tacit.estimators.explain import Explanation, Feature, class_index, explanation, terms
from tacit.families import Bernoulli, Categorical, Family, Gaussian, Mixed, Multinomial
from tacit.families.mixed import Part
from tacit.frames.columns import Column, columns_of, encode, infer
from tacit.frames.top_features import top_features
from tacit.frames.values import ColumnValues
from tacit.io.suggestions import did_you_mean
from tacit.numerics import Array
from tacit.text.vectorizer import CountVectorizer

__all__ = ["ColumnGroup", "PreparedTable", "TableEstimator"]


# A term of an explanation: column, value, and log-odds of each class.
NamedTerm = tuple[str, str, Array]


class ColumnGroup(NamedTuple):
    """Columns that share one family."""

    name: str
    family: Family
    columns: list[Column]
    width: int  # the number of encoded columns


@dataclass(frozen=True)
class PreparedTable(Joined):
    """A table whose columns are known and encoded, for several fits to the same rows.

    `encoded` are the values of each column by its name, as `columns.encode` gives them; `texts` are
    the classifiers of the columns of text, where these are fitted already.
    """

    columns: tuple[Column, ...]
    names: npt.NDArray[np.object_]
    encoded: dict[str, Any]
    texts: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, rows: Any) -> PreparedTable:
        encoded = {} if self.texts else {name: own[rows] for name, own in self.encoded.items()}
        return replace(self, blocks=super().__getitem__(rows).blocks, encoded=encoded)


@dataclass(eq=False, repr=False, kw_only=True)
class TableEstimator(EMEstimator):
    """An estimator of whole tables: a family for each column, by its feature type."""

    kinds: Any = None
    alpha: float = 1.0
    word_alpha: float = 0.01
    var_smoothing: float = 0.01
    vectorizer: Any = None
    numbers: str = "normal"

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "kinds": [dict, None],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "word_alpha": [Interval(Real, 0, None, closed="left")],
        "var_smoothing": [Interval(Real, 0, None, closed="left")],
        "vectorizer": [CountVectorizer, None],
        "numbers": [StrOptions({"normal", "bins"})],
    }

    _saved: ClassVar[dict[str, Any]] = {"_columns": tuple[Column, ...]}
    # Fraction of a count that each neighbour of a number's bin gets.
    _neighbour_smoothing: ClassVar[float] = 0.0

    @property
    def columns_(self) -> tuple[Column, ...]:
        """The columns and their feature types."""
        check_is_fitted(self)
        return self._columns

    def _smoothing(self) -> float:
        """Return the smoothing of categories."""
        return self.alpha

    def _groups(self, columns: Iterable[Column] | None = None) -> Iterator[ColumnGroup]:
        """Yield the columns that are used by family; each text and each number has its own."""
        of: dict[str, list[Column]] = {}
        for column in self._columns if columns is None else columns:
            of.setdefault(self._feature_type(column), []).append(column)
        for column in of.get("text", []):
            yield self._text_group(column)
        if "category" in of:
            sizes = [len(column.values) for column in of["category"]]
            smoothing = (self._neighbour_smoothing if c.edges else 0.0 for c in of["category"])
            family: Family = Categorical(
                self._smoothing(), sizes, "missing", beside=tuple(smoothing)
            )
            yield ColumnGroup("categories", family, of["category"], len(sizes))
        if "yes/no" in of:
            family = Bernoulli(self._smoothing(), None)
            yield ColumnGroup("yes/no", family, of["yes/no"], len(of["yes/no"]))
        yield from self._normal(of.get("number", []))

    def _feature_type(self, column: Column) -> str:
        """Return the feature type whose family a column has: binned numbers are categories."""
        return "category" if column.edges else column.kind

    def _normal(self, columns: list[Column]) -> Iterator[ColumnGroup]:
        """Yield the groups of numbers that are not binned."""
        for column in columns:
            yield ColumnGroup(f"number {column.name}", self._gaussian(), [column], 1)

    def _gaussian(self) -> Gaussian:
        """Return the family of a number that is not binned."""
        return Gaussian(self.var_smoothing)

    def _text_group(self, column: Column) -> ColumnGroup:
        """Return the group of a column of text."""
        family = Multinomial(self.word_alpha)
        return ColumnGroup(f"text {column.name}", family, [column], column.width)

    def _block(self, column: Column, encoded: Any) -> Any:
        """Return the features of a column, shape (n, width), from its encoded values."""
        return column.to_bins(encoded)

    def _family(self) -> Family:
        parts, start = [], 0
        for group in self._groups():
            columns = np.arange(start, start + group.width)
            parts.append(Part(group.name, group.family, columns))
            start += group.width
        return Mixed(tuple(parts))

    def _feature_attributes(self, params: Any, statistics: Any, family: Any) -> dict[str, Any]:
        return {"named_params_": {p.name: own for p, own in zip(family.parts, params, strict=True)}}

    def _check_shape(self, X: Any, reset: bool) -> PreparedTable:
        """Return a table as blocks of numbers, one for each group."""
        new = self._prepared(X, reset and not self._warm)
        if reset:
            self._columns, self.feature_names_in_ = new.columns, new.names
            self.n_features_in_ = len(new.names)
        return new

    @property
    def _warm(self) -> bool:
        """Whether a fit goes on from the one before, with its columns."""
        return self.warm_start and hasattr(self, "_params")

    def _has_blocks(self, table: PreparedTable) -> bool:
        """Return whether the blocks of a table are those of the fitted columns."""
        return table.columns is self._columns

    def _with_bins(self, table: PreparedTable, bins: bool) -> PreparedTable:
        """Return a table with its numbers binned, or not."""
        own = table.encoded
        columns = tuple(
            c.with_bins(own[c.name], bins) if c.name in own else c for c in table.columns
        )
        if columns == table.columns and table.blocks:
            return table
        return self._with_blocks(replace(table, columns=columns))

    def _with_blocks(self, table: PreparedTable) -> PreparedTable:
        """Return a table with the blocks of its encoded values; those of texts, the first, stay."""
        blocks: list[Any] = []
        for i, group in enumerate(self._groups(table.columns)):
            if group.columns[0].vectorizer is not None and i < len(table.blocks):
                blocks.append(table.blocks[i])
                continue
            each = [self._block(column, table.encoded[column.name]) for column in group.columns]
            blocks.append(each[0] if len(each) == 1 else np.hstack(each))
        return replace(table, blocks=tuple(blocks))

    def _prepared(self, X: Any, reset: bool) -> PreparedTable:
        """Return a table with its columns, those of the fit unless `reset`, and its blocks."""
        if isinstance(X, PreparedTable):
            known = reset or self._has_blocks(X)
            return X if known else self._with_blocks(replace(X, blocks=(), columns=self._columns))
        table, encoded = columns_of(X), dict[str, Any]()
        if not table:
            raise ValueError("The table has no columns to learn from.")
        if not len(next(iter(table.values()))):
            raise ValueError("The table has no rows.")
        columns = self._columns if not reset else ()
        if reset:
            vectorizer = CountVectorizer() if self.vectorizer is None else clone(self.vectorizer)
            vectorizer.n_jobs = self.n_jobs
            columns, encoded = infer(table, self.kinds, vectorizer)
        for column in columns:
            if column.kind != "out" and column.name not in encoded:
                if column.vectorizer is not None:
                    column.vectorizer.n_jobs = self.n_jobs
                encoded[column.name] = encode(column, _column(table, column.name))
        if not encoded:
            left = "; ".join(f"{c.name} {c.note}" for c in columns)
            raise ValueError(
                f"No column is left to learn from ({left}). Name a kind: kinds={{...}} (--kind)."
            )
        new = PreparedTable((), columns, np.array(list(table), dtype=object), encoded)
        return self._with_bins(new, self.numbers != "normal") if reset else self._with_blocks(new)

    def _describes(self, family: Family) -> bool:
        own = self._family()
        if own.kind != family.kind:
            return False
        assert isinstance(own, Mixed)
        assert isinstance(family, Mixed)
        pairs = zip(own.parts, family.parts, strict=True)
        sizes = [p.family.sizes for p in family.parts if isinstance(p.family, Categorical)]
        named = [g.columns for g in self._groups() if isinstance(g.family, Categorical)]
        fits = sizes == [tuple(len(column.values) for column in columns) for columns in named]
        return fits and all(np.array_equal(a.columns, b.columns) for a, b in pairs)

    def _width(self) -> int:
        return sum(group.width for group in self._groups())

    def prepare(self, X: Any) -> PreparedTable:
        """Return a table whose columns are known and encoded, for several fits to the same rows.

        Parameters
        ----------
        X : table
            The rows.

        Returns
        -------
        PreparedTable
            Whatever takes a table takes it as well.

        Examples
        --------
        >>> from tacit import TableMixture
        >>> model = TableMixture(random_state=0)
        >>> rows = model.prepare({"size": [1.0, 1.1, 0.9, 3.0, 3.2, 3.1]})
        >>> [round(model.set_params(n_components=k).fit(rows).bic(rows)) for k in (1, 2)]
        [21, 6]
        """
        return self._prepared(X, reset=True)

    def _names(self) -> list[Any]:
        """Return the names of the classes."""
        numbers = range(len(self._params.class_log_prior))
        return list(self.classes_.tolist() if hasattr(self, "classes_") else numbers)

    def explain(self, row: Any, label: Any = None, against: Any = None) -> Explanation:
        """Return the values' contributions to the log-odds of one class against another.

        They add up exactly.

        Parameters
        ----------
        row : table of one row, or dict of values
            The row.
        label : optional
            The class to explain; by default the most probable.
        against : optional
            The class to compare it with; by default the most probable of the others.

        Returns
        -------
        Explanation

        Examples
        --------
        >>> from tacit import TableClassifier
        >>> table = {"colour": ["red", "red", "blue", "blue"], "hot": ["yes", "yes", "no", "yes"]}
        >>> model = TableClassifier(alpha=1).fit(table, ["stop", "stop", "go", "go"])
        >>> print(model.explain({"colour": "blue", "hot": "yes"}))
        go (probability 0.761) rather than stop
          prior          +0.000
          colour blue    +1.548
          hot yes        -0.389
          total          +1.159
        """
        check_is_fitted(self)
        if getattr(row, "ndim", 2) == 1 and hasattr(row, "to_dict"):  # a row of pandas
            row = row.to_dict()
        with kernels.kernel_threads(self.n_jobs):
            X = self._check_shape(row, reset=False)
            if X.shape[0] != 1:
                raise ValueError(f"Expected one row to explain, got {X.shape[0]}.")
            log_prior, by_value = self._terms(X)
        return explanation(self._names(), log_prior, by_value, label, against)

    def _terms(self, X: PreparedTable) -> tuple[Array, list[NamedTerm]]:
        """Return log p(x, y) of one row as a constant, (K,), and a named term for each value."""
        within = self._component_posterior(X)
        constant, by_value = self._prior_term(within), list[NamedTerm]()
        parts = zip(self._model.family.parts, self._params.features, X.blocks, strict=True)
        for group, (part, params, block) in zip(self._groups(), parts, strict=True):
            own, named = self._group_terms(X, within, group, part.family, params, block)
            constant = constant + own
            by_value += named
        return constant, by_value

    def _component_posterior(self, X: PreparedTable) -> Array:
        """Return p(component | class, row) of one row, shape (K, M): here M is 1."""
        return np.ones((len(self._params.class_log_prior), 1))

    def _prior_term(self, within: Array) -> Array:
        """Return the term of the class prior, shape (K,)."""
        log_prior: Array = self._params.class_log_prior
        return log_prior

    def _group_terms(
        self,
        X: PreparedTable,
        within: Array,
        group: ColumnGroup,
        family: Family,
        params: Any,
        block: Any,
    ) -> tuple[Any, list[NamedTerm]]:
        """Return the terms of one group of columns: a constant, and one for each value."""
        indices, own = terms(family, params, block)
        first = group.columns[0]
        if first.vectorizer is not None:
            words = first.vectorizer.get_feature_names_out()[indices]
            counts = block.toarray()[0, indices]
            names = [(first.name, _word(w, n)) for w, n in zip(words, counts, strict=True)]
        else:
            columns = [(group.columns[j], block[0, j]) for j in indices]
            names = [(column.name, _decoded(column, value)) for column, value in columns]
        return 0.0, [(*name, logs) for name, logs in zip(names, own, strict=True)]

    def top_features(self, label: Any, n: int = 10) -> list[Feature]:
        """Return the words, categories and numbers with the strongest log-odds for a class.

        Parameters
        ----------
        label
            The class.
        n : int, default=10
            How many.

        Returns
        -------
        list of Feature
            The strongest first.

        Examples
        --------
        >>> from tacit import TableClassifier
        >>> table = {"colour": ["red", "red", "blue", "blue"], "hot": ["yes", "yes", "no", "yes"]}
        >>> model = TableClassifier().fit(table, ["stop", "stop", "go", "go"])
        >>> [(feature.column, feature.value) for feature in model.top_features("go", 2)]
        [('colour', 'blue'), ('hot', 'no')]
        """
        check_is_fitted(self)
        return self._top_features(n)[class_index(label, self._names())]

    def _top_features(self, n: int) -> list[list[Feature]]:
        """Return the n strongest features of each class."""
        prior = np.exp(self._params.class_log_prior)
        statistics = self._statistics.features.parts
        parts = zip(self._model.family.parts, self._params.features, statistics, strict=True)
        by_group = [
            self._group_features(group, part.family, params, sums, prior, n)
            for group, (part, params, sums) in zip(self._groups(), parts, strict=True)
        ]
        by_class = [list(chain.from_iterable(groups)) for groups in zip(*by_group, strict=True)]
        ordered = (sorted(own, key=lambda feature: -feature.strength)[:n] for own in by_class)
        return [[feature for feature in own if feature.strength > 0] for own in ordered]

    def _group_features(
        self, group: ColumnGroup, family: Family, params: Any, statistics: Any, prior: Array, n: int
    ) -> list[list[Feature]]:
        """Return the strongest features of each class in one group of columns."""
        parts = len(prior) // len(self._names())
        return top_features(family, params, statistics, group.columns, prior, n, parts)

    def _as_rows(
        self, drawn: Array, labels: npt.NDArray[np.intp], rng: np.random.RandomState
    ) -> dict[str, list[Any]]:
        """Return drawn features as a table of the columns that are used; words have no order."""
        table: dict[str, list[Any]] = {}
        for group, part in zip(self._groups(), self._model.family.parts, strict=True):
            block, first = drawn[:, part.columns], group.columns[0]
            if first.vectorizer is not None:
                words = first.vectorizer.get_feature_names_out()
                counts = self._drawn_counts(first, block, labels, rng).astype(np.intp)
                table[first.name] = [" ".join(np.repeat(words, row)) for row in counts]
                continue
            for column, values in zip(group.columns, block.T, strict=True):
                if column.kind != "number":
                    table[column.name] = [_decoded(column, value) for value in values]
                    continue
                if column.edges:  # uniformly in its bin
                    code, uniform = values.astype(np.intp), rng.random_sample(len(values))
                    values = np.array(column.edges)[code] + np.diff(column.edges)[code] * uniform
                table[column.name] = values.tolist()
        return {c.name: table[c.name] for c in self._columns if c.name in table}

    def _drawn_counts(
        self,
        column: Column,
        drawn: Array,
        labels: npt.NDArray[np.intp],
        rng: np.random.RandomState,
    ) -> Array:
        """Return the drawn word counts of a text."""
        return drawn


def _column(table: dict[str, ColumnValues], name: str) -> ColumnValues:
    if name not in table:
        hint = did_you_mean(name, table)
        raise ValueError(f"The table lacks the column {name!r}, which the model needs{hint}")
    return table[name]


def _decoded(column: Column, value: float) -> str:
    return column.values[int(value)] if column.values else f"{value:g}"


def _word(word: str, count: float) -> str:
    return word if count == 1 else f"{word} ×{count:g}"
