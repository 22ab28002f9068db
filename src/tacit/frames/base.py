"""What the estimators of whole tables share: columns of any kind in, numbers for `Mixed` out."""

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
from tacit.estimators.explain import Explanation, Feature, explanation, place, terms
from tacit.families import Bernoulli, Categorical, Family, Gaussian, Mixed, Multinomial
from tacit.families.mixed import Part
from tacit.frames.columns import Column, columns_of, encode, infer
from tacit.frames.marks import marks
from tacit.frames.values import Cells
from tacit.io.suggestions import did_you_mean
from tacit.numerics import Array
from tacit.text.vectorizer import CountVectorizer

__all__ = ["TableKind"]


class Group(NamedTuple):
    """Columns that one family describes."""

    name: str
    family: Family
    columns: list[Column]
    width: int  # how many columns of numbers they become


@dataclass(frozen=True)
class Prepared(Joined):
    """A table whose columns are known and encoded, for several fits to the same rows.

    `cells` are those of each column by its name, as `columns.encode` gives them; `texts` are the
    classifiers that make words into evidence, where these are known already.
    """

    columns: tuple[Column, ...]
    names: Any
    cells: dict[str, Any]
    texts: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, rows: Any) -> Prepared:
        cells = {} if self.texts else {name: own[rows] for name, own in self.cells.items()}
        return replace(self, blocks=super().__getitem__(rows).blocks, cells=cells)


@dataclass(eq=False, repr=False, kw_only=True)
class TableKind(EMEstimator):
    """Tables as they are: a family for each column, chosen by what its cells look like."""

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
    # How much of a number in a bin counts for each of the bins beside it.
    _beside: ClassVar[float] = 0.0

    @property
    def columns_(self) -> tuple[Column, ...]:
        """What each column is taken for."""
        check_is_fitted(self)
        return self._columns

    def _smoothing(self) -> float:
        """Return the smoothing of categories."""
        return self.alpha

    def _groups(self, columns: Iterable[Column] | None = None) -> Iterator[Group]:
        """Yield the columns that are used; each text and each number has a family of its own."""
        of: dict[str, list[Column]] = {}
        for column in self._columns if columns is None else columns:
            of.setdefault(self._seen_as(column), []).append(column)
        for column in of.get("text", []):
            yield self._words(column)
        if "category" in of:
            sizes = [len(column.values) for column in of["category"]]
            beside = tuple(self._beside if column.edges else 0.0 for column in of["category"])
            family: Family = Categorical(self._smoothing(), sizes, "missing", beside=beside)
            yield Group("categories", family, of["category"], len(sizes))
        if "yes/no" in of:
            yield Group(
                "yes/no", Bernoulli(self._smoothing(), None), of["yes/no"], len(of["yes/no"])
            )
        yield from self._normal(of.get("number", []))

    def _seen_as(self, column: Column) -> str:
        """Return the kind whose family describes a column."""
        return "category" if column.edges else column.kind

    def _normal(self, columns: list[Column]) -> Iterator[Group]:
        """Yield the groups of numbers that are not cut into bins."""
        for column in columns:
            yield Group(f"number {column.name}", self._gaussian(), [column], 1)

    def _gaussian(self) -> Gaussian:
        """Return the family of a number that is not cut into bins."""
        return Gaussian(self.var_smoothing)

    def _words(self, column: Column) -> Group:
        """Return the group of a column of text."""
        return Group(f"text {column.name}", Multinomial(self.word_alpha), [column], column.width)

    def _block(self, column: Column, cells: Any) -> Any:
        """Return the numbers that the cells of a column become."""
        return column.shaped(cells)

    def _family(self) -> Family:
        parts, start = [], 0
        for group in self._groups():
            columns = np.arange(start, start + group.width)
            parts.append(Part(group.name, group.family, columns))
            start += group.width
        return Mixed(tuple(parts))

    def _feature_attributes(self, params: Any, statistics: Any, family: Any) -> dict[str, Any]:
        return {"named_params_": {p.name: own for p, own in zip(family.parts, params, strict=True)}}

    def _check_shape(self, X: Any, reset: bool) -> Prepared:
        """Return the blocks of numbers that a table stands for, one for each group."""
        new = self._prepared(X, reset and not self._warm)
        if reset:
            self._columns, self.feature_names_in_ = new.columns, new.names
            self.n_features_in_ = len(new.names)
        return new

    @property
    def _warm(self) -> bool:
        """Whether a fit goes on from the one before, with its columns."""
        return self.warm_start and hasattr(self, "_params")

    def _sees(self, table: Prepared) -> bool:
        """Return whether a table has the columns of the fit."""
        return table.columns is self._columns

    def _cut(self, table: Prepared, bins: bool) -> Prepared:
        """Return a table with its numbers cut into bins, or not."""
        cells = table.cells
        columns = tuple(c.cut(cells[c.name], bins) if c.name in cells else c for c in table.columns)
        if columns == table.columns and table.blocks:
            return table
        return self._shaped(replace(table, columns=columns))

    def _shaped(self, table: Prepared) -> Prepared:
        """Return a table with the blocks that its cells become; texts come first, and stay."""
        blocks: list[Any] = []
        for i, group in enumerate(self._groups(table.columns)):
            if group.columns[0].vectorizer is not None and i < len(table.blocks):
                blocks.append(table.blocks[i])
                continue
            each = [self._block(column, table.cells[column.name]) for column in group.columns]
            blocks.append(each[0] if len(each) == 1 else np.hstack(each))
        return replace(table, blocks=tuple(blocks))

    def _prepared(self, X: Any, reset: bool) -> Prepared:
        """Return a table with its columns, those of the fit unless `reset`, and its blocks."""
        if isinstance(X, Prepared):
            known = reset or self._sees(X)
            return X if known else self._shaped(replace(X, blocks=(), columns=self._columns))
        table, cells = columns_of(X), dict[str, Any]()
        if not table:
            raise ValueError("The table has no columns to learn from.")
        if not len(next(iter(table.values()))):
            raise ValueError("The table has no rows.")
        columns = self._columns if not reset else ()
        if reset:
            vectorizer = CountVectorizer() if self.vectorizer is None else clone(self.vectorizer)
            vectorizer.n_jobs = self.n_jobs
            columns, cells = infer(table, self.kinds, vectorizer)
        for column in columns:
            if column.kind != "out" and column.name not in cells:
                if column.vectorizer is not None:
                    column.vectorizer.n_jobs = self.n_jobs
                cells[column.name] = encode(column, _column(table, column.name))
        if not cells:
            left = "; ".join(f"{c.name} {c.note}" for c in columns)
            raise ValueError(
                f"No column is left to learn from ({left}). Name a kind: kinds={{...}} (--kind)."
            )
        made = Prepared((), columns, np.array(list(table), dtype=object), cells)
        return self._cut(made, self.numbers != "normal") if reset else self._shaped(made)

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

    def prepare(self, X: Any) -> Prepared:
        """Return a table whose columns are known and encoded, for several fits to the same rows.

        Parameters
        ----------
        X : table
            The rows.

        Returns
        -------
        Prepared
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
        """Say what in a row speaks for a class and against another, in log-odds that add up.

        Parameters
        ----------
        row : table of one row, or dict of cells
            The row.
        label : optional
            The class that is asked about; else the most probable.
        against : optional
            The class that it is compared with; else the most probable of the others.

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
            log_prior, said = self._terms(X)
        return explanation(self._names(), log_prior, said, label, against)

    def _terms(self, X: Prepared) -> tuple[Array, list[tuple[str, str, Array]]]:
        """Return what is said of each class before the cells of one row are seen, and by each."""
        within = self._within(X)
        log_prior, said = self._before_cells(within), list[tuple[str, str, Array]]()
        parts = zip(self._model.family.parts, self._params.features, X.blocks, strict=True)
        for group, (part, params, block) in zip(self._groups(), parts, strict=True):
            before, terms = self._said(X, within, group, part.family, params, block)
            log_prior = log_prior + before
            said += terms
        return log_prior, said

    def _within(self, X: Prepared) -> Array:
        """Return p(component | class, row) of one row, of shape (K, M): a class is one here."""
        return np.ones((len(self._params.class_log_prior), 1))

    def _before_cells(self, within: Array) -> Array:
        """Return what is said of each class before any cell is seen."""
        log_prior: Array = self._params.class_log_prior
        return log_prior

    def _said(
        self, X: Prepared, within: Array, group: Group, family: Family, params: Any, block: Any
    ) -> tuple[Any, list[tuple[str, str, Array]]]:
        """Return what a group says of each class before its cells are seen, and what each says."""
        places, own = terms(family, params, block)
        first = group.columns[0]
        if first.vectorizer is not None:
            words = first.vectorizer.get_feature_names_out()[places]
            counts = block.toarray()[0, places]
            names = [(first.name, _word(w, n)) for w, n in zip(words, counts, strict=True)]
        else:
            columns = [(group.columns[j], block[0, j]) for j in places]
            names = [(column.name, _decoded(column, cell)) for column, cell in columns]
        return 0.0, [(*name, logs) for name, logs in zip(names, own, strict=True)]

    def top_features(self, label: Any, n: int = 10) -> list[Feature]:
        """Return what marks a class: the words, categories and numbers that speak most for it.

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
        return self._marks(n)[place(label, self._names())]

    def _marks(self, n: int) -> list[list[Feature]]:
        """Return what marks each class."""
        share = np.exp(self._params.class_log_prior)
        statistics = self._statistics.features.parts
        parts = zip(self._model.family.parts, self._params.features, statistics, strict=True)
        found = [
            self._marked(group, part.family, params, sums, share, n)
            for group, (part, params, sums) in zip(self._groups(), parts, strict=True)
        ]
        each = [list(chain.from_iterable(of_parts)) for of_parts in zip(*found, strict=True)]
        ordered = (sorted(own, key=lambda feature: -feature.strength)[:n] for own in each)
        return [[feature for feature in own if feature.strength > 0] for own in ordered]

    def _marked(
        self, group: Group, family: Family, params: Any, statistics: Any, share: Array, n: int
    ) -> list[list[Feature]]:
        """Return what marks each class in the columns of a group."""
        parts = len(share) // len(self._names())
        return marks(family, params, statistics, group.columns, share, n, parts)

    def _as_rows(
        self, drawn: Array, labels: npt.NDArray[np.intp], rng: np.random.RandomState
    ) -> dict[str, list[Any]]:
        """Return drawn numbers as a table of the columns that are used; words have no order."""
        table: dict[str, list[Any]] = {}
        for group, part in zip(self._groups(), self._model.family.parts, strict=True):
            block, first = drawn[:, part.columns], group.columns[0]
            if first.vectorizer is not None:
                words = first.vectorizer.get_feature_names_out()
                counts = self._drawn_words(first, block, labels, rng).astype(np.intp)
                table[first.name] = [" ".join(np.repeat(words, row)) for row in counts]
                continue
            for column, cells in zip(group.columns, block.T, strict=True):
                if column.kind != "number":
                    table[column.name] = [_decoded(column, cell) for cell in cells]
                    continue
                if column.edges:  # anywhere in its bin
                    place = cells.astype(np.intp)
                    width = np.diff(column.edges)[place]
                    cells = np.array(column.edges)[place] + width * rng.random_sample(len(cells))
                table[column.name] = cells.tolist()
        return {c.name: table[c.name] for c in self._columns if c.name in table}

    def _drawn_words(
        self, column: Column, drawn: Array, labels: Any, rng: np.random.RandomState
    ) -> Array:
        """Return how often each word of a text is drawn."""
        return drawn


def _column(table: dict[str, Cells], name: str) -> Cells:
    if name not in table:
        hint = did_you_mean(name, table)
        raise ValueError(f"The table lacks the column {name!r}, which the model needs{hint}")
    return table[name]


def _decoded(column: Column, value: float) -> str:
    return column.values[int(value)] if column.values else f"{value:g}"


def _word(word: str, count: float) -> str:
    return word if count == 1 else f"{word} ×{count:g}"
