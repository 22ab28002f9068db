"""`CountVectorizer`: texts in, word counts out, as scikit-learn's and many times as fast.

Tokens, vocabulary and counts are exactly scikit-learn's. Where there is no kernel (characters, a
custom tokenizer, an unusual pattern), scikit-learn does the work. Nothing here knows models; word
counts become weights in `tacit.text.weighting`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.feature_extraction import text as of_sklearn

from tacit import kernels
from tacit._native import Column
from tacit.text import documents

__all__ = ["CountVectorizer"]

# Token patterns that are runs of word characters, or of letters, of a minimal length.
RUNS = re.compile(
    r"(?:\(\?u\))?(?P<before>\\b)?(?P<kind>\\w|\[a-zA-Z\]|\[A-Za-z\])(?P<more>(?P=kind))?"
    r"(?:\+|\{(?P<least>\d+),\})(?P<after>\\b)?"
)


class Pattern(NamedTuple):
    """A token pattern with a kernel: letters only, at word boundaries only, minimal length."""

    letters: bool
    bounded: bool
    least: int


def pattern_of(token_pattern: str) -> Pattern | None:
    r"""Return a token pattern in the kernel's terms, or None if it is no plain run of characters.

    Examples
    --------
    >>> pattern_of(r"(?u)\b\w\w+\b")
    Pattern(letters=False, bounded=False, least=2)
    >>> pattern_of(r"\b[a-zA-Z]{3,}\b")
    Pattern(letters=True, bounded=True, least=3)
    >>> pattern_of(r"\d+") is None
    True
    """
    match = RUNS.fullmatch(token_pattern)
    if match is None or (match["least"] and match["more"]):
        return None
    letters, bounded = match["kind"] != r"\w", match["before"] is not None
    if letters and bounded != (match["after"] is not None):
        return None
    least = int(match["least"]) if match["least"] else 2 if match["more"] else 1
    return None if least < 1 else Pattern(letters, letters and bounded, least)


@cache
def _folded(page: int, lowercase: bool, accents: str) -> list[str]:
    """Return the 256 characters of a Unicode page without their accents.

    Accents can be stripped character by character, since Unicode normalisation reorders combining
    marks only, all of which are stripped.
    """
    strip = {"ascii": of_sklearn.strip_accents_ascii, "unicode": of_sklearn.strip_accents_unicode}
    characters = map(chr, range(256 * page, 256 * page + 256))
    return [strip[accents](c.lower() if lowercase else c) for c in characters]


class CountVectorizer(of_sklearn.CountVectorizer):
    """Turn texts into word counts: scikit-learn's CountVectorizer, many times as fast.

    The parameters, the attributes and the results are those of
    :class:`sklearn.feature_extraction.text.CountVectorizer`. Texts that are missing (None, NaN) are
    empty documents here, with a warning. Besides lists, arrays and columns of pandas, columns of
    strings in Arrow are taken (polars, pyarrow, pandas with Arrow strings), and read in place.

    Parameters
    ----------
    input, encoding, decode_error, strip_accents, lowercase, preprocessor, tokenizer, stop_words, \
token_pattern, ngram_range, analyzer, max_df, min_df, max_features, vocabulary, binary, dtype
        As there. Runs of word characters (the default) or of letters a to z, with stop words,
        n-grams and accents, are counted natively; anything else by scikit-learn.
    n_jobs : int, default=None
        Threads, None for one a core. The result does not depend on their number.

    Attributes
    ----------
    vocabulary_ : dict
        The column of each word.
    fixed_vocabulary_ : bool
        Whether the vocabulary was given.

    Examples
    --------
    >>> from tacit.text import CountVectorizer
    >>> vectorizer = CountVectorizer()
    >>> X = vectorizer.fit_transform(["The cat sat.", "The cat sat on the mat."])
    >>> vectorizer.get_feature_names_out()
    array(['cat', 'mat', 'on', 'sat', 'the'], dtype=object)
    >>> X.toarray()
    array([[1, 0, 0, 1, 1],
           [1, 1, 1, 1, 2]])
    """

    _parameter_constraints = {  # noqa: RUF012 - as scikit-learn has it
        **of_sklearn.CountVectorizer._parameter_constraints,
        "n_jobs": [int, None],
    }

    def __init__(
        self,
        *,
        input: str = "content",  # noqa: A002 - scikit-learn's name
        encoding: str = "utf-8",
        decode_error: str = "strict",
        strip_accents: Any = None,
        lowercase: bool = True,
        preprocessor: Any = None,
        tokenizer: Any = None,
        stop_words: Any = None,
        token_pattern: str | None = r"(?u)\b\w\w+\b",
        ngram_range: tuple[int, int] = (1, 1),
        analyzer: Any = "word",
        max_df: Any = 1.0,
        min_df: Any = 1,
        max_features: int | None = None,
        vocabulary: Any = None,
        binary: bool = False,
        dtype: Any = np.int64,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(
            input=input,
            encoding=encoding,
            decode_error=decode_error,
            strip_accents=strip_accents,
            lowercase=lowercase,
            preprocessor=preprocessor,
            tokenizer=tokenizer,
            stop_words=stop_words,
            token_pattern=token_pattern,
            ngram_range=ngram_range,
            analyzer=analyzer,
            max_df=max_df,
            min_df=min_df,
            max_features=max_features,
            vocabulary=vocabulary,
            binary=binary,
            dtype=dtype,
        )
        self.n_jobs = n_jobs

    def _pattern(self) -> Pattern | None:
        """Return the token pattern if there is a kernel for it and all other settings."""
        custom = self.preprocessor is not None or self.tokenizer is not None
        custom = custom or self.input != "content"
        if custom or self.analyzer != "word" or kernels.native() is None or not self.token_pattern:
            return None
        return pattern_of(self.token_pattern)

    def _count_vocab(self, raw_documents: Iterable[Any], fixed_vocab: bool) -> tuple[Any, Any]:
        """Return the vocabulary and the counts: scikit-learn's hook, which takes all the time."""
        texts = documents.read(raw_documents)
        pattern = self._pattern()
        # The kernel would have to read the vocabulary first, which can take longer than few texts.
        few = fixed_vocab and documents.length(texts) < len(self.vocabulary_)
        if pattern is None or few:
            strings = documents.listed(texts)
            if self.input == "content" and self.preprocessor is None and self.analyzer == "word":
                documents.checked(strings)
            counted: tuple[Any, Any] = super()._count_vocab(strings, fixed_vocab)
            return counted
        self.build_analyzer()  # warns of stop words that are no tokens
        given = _in_order(self.vocabulary_) if fixed_vocab else None
        counter, threads = self._counter(pattern), kernels.workers(self.n_jobs)
        starts, indices, counts, words = counter.count(self._strings(texts), given, threads)
        vocabulary = self.vocabulary_ if fixed_vocab else words
        if not vocabulary:
            raise ValueError("empty vocabulary; perhaps the documents only contain stop words")
        counts = counts.view(np.int64)  # by this name rather than as C's long long
        X = sparse.csr_array(
            (counts.astype(self.dtype, copy=False), indices, starts),
            shape=(len(starts) - 1, len(vocabulary)),
        )
        return vocabulary, _as_sklearn(X)

    def _counter(self, pattern: Pattern) -> Any:
        """Return the native counter of a token pattern."""
        native, stop, fold = kernels.native(), self.get_stop_words(), None
        assert native is not None
        if isinstance(self.strip_accents, str):
            fold = partial(_folded, lowercase=self.lowercase, accents=self.strip_accents)
        return native.Counter(
            pattern.letters,
            pattern.bounded,
            self.lowercase and not callable(self.strip_accents),
            pattern.least,
            fold,
            sorted(stop) if stop is not None else [],
            *self.ngram_range,
        )

    def _strings(self, texts: list[Any] | Column) -> tuple[str, ...] | Column:
        """Return texts as the kernel takes them, after a custom function for accents."""
        custom = callable(self.strip_accents)
        if not isinstance(texts, list) and not custom:
            return texts
        strings = documents.listed(texts)
        if set(map(type, strings)) - {str}:
            strings = [str(self.decode(text)) for text in documents.checked(strings)]
        return tuple(map(self.build_preprocessor(), strings) if custom else strings)

    def _limit_features(
        self,
        X: Any,
        vocabulary: dict[str, int],
        high: Any = None,
        low: Any = None,
        limit: Any = None,
    ) -> Any:
        """Return X as it is where no word is dropped."""
        if limit is None and (high is None or high >= X.shape[0]) and (low is None or low <= 1):
            return X
        return super()._limit_features(X, vocabulary, high, low, limit)

    def _sort_features(self, X: Any, vocabulary: dict[str, int]) -> Any:
        """Return X as it is where the kernel has counted, which sorts the vocabulary."""
        return X if self._pattern() is not None else super()._sort_features(X, vocabulary)


def _in_order(vocabulary: dict[str, int]) -> list[str]:
    """Return the words of a vocabulary in the order of their columns."""
    if list(vocabulary.values()) == list(range(len(vocabulary))):
        return list(vocabulary)
    return sorted(vocabulary, key=vocabulary.__getitem__)


def _as_sklearn(X: Any) -> Any:
    """Return a sparse array in the type that this version of scikit-learn returns."""
    align = getattr(of_sklearn, "_align_api_if_sparse", sparse.csr_matrix)
    return align(X)
