"""What the benchmarks run on: synthetic data, and 20 Newsgroups where it is at hand.

Real data are no part of the project: TACIT_DATA names their folder, as it does for the tests.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

BESIDE = Path(__file__).parents[2] / "shared/data"
DATA = Path(os.environ.get("TACIT_DATA") or BESIDE).absolute()
NEWSGROUPS = DATA / "20newsgroups/20news-bydate.jsonl.gz"


def zipf(n: int, words: int, tokens: int, seed: int = 0) -> Any:
    """Return counts of words whose frequencies fall as 1 / rank, in float64."""
    return _counts(*_zipf(n, words, tokens, np.random.default_rng(seed)), (n, words))


def topics(n: int, words: int, tokens: int, K: int, seed: int = 0) -> Any:
    """Return the same of rows of K classes: of ten words three have the rank that a class gives."""
    rng = np.random.default_rng(seed)
    rows, columns = _zipf(n, words, tokens, rng)
    of, own = rng.integers(0, K, n), rng.random(tokens) < 0.3
    ranks = np.stack([rng.permutation(words) for _ in range(K)])
    return _counts(rows, np.where(own, ranks[of[rows], columns], columns), (n, words))


def _zipf(n: int, words: int, tokens: int, rng: np.random.Generator) -> tuple[Any, Any]:
    p = 1.0 / (np.arange(words) + 2.7)
    columns = rng.choice(words, size=tokens, p=p / p.sum()).astype(np.int32)
    return rng.integers(0, n, tokens, dtype=np.int32), columns


def _counts(rows: Any, columns: Any, shape: tuple[int, int]) -> Any:
    X = sparse.coo_array((np.ones(len(rows)), (rows, columns.astype(np.int32))), shape).tocsr()
    X.sum_duplicates()
    return X


def classes_of_codes(n: int, columns: int, levels: int, K: int, seed: int = 0) -> Any:
    """Return n rows of categories, drawn from K classes."""
    rng = np.random.default_rng(seed)
    below = np.cumsum(rng.dirichlet(np.ones(levels), (K, columns)), axis=2)
    label, drawn = rng.integers(0, K, n), np.empty((n, columns), dtype=np.int64)
    for j in range(columns):
        drawn[:, j] = (rng.random((n, 1)) > below[label, j]).sum(axis=1)
    return np.minimum(drawn, levels - 1)


def newsgroups(scale: float = 1.0) -> tuple[Any, Any] | None:
    """Return the counts of 20 Newsgroups and the labels, or None where the data are absent."""
    if not NEWSGROUPS.exists():
        return None
    from sklearn.feature_extraction.text import CountVectorizer

    read = _read(scale)
    X = CountVectorizer().fit_transform(post["text"] for post in read)
    return X, np.unique([post["label"] for post in read], return_inverse=True)[1]


def posts(scale: float = 1.0) -> list[str] | None:
    """Return the texts of 20 Newsgroups, or None where the data are absent."""
    return [post["text"] for post in _read(scale)] if NEWSGROUPS.exists() else None


def table(path: Path, scale: float = 1.0) -> bool:
    """Write 20 Newsgroups as a CSV file in which every tenth post has a topic; False if absent."""
    if not NEWSGROUPS.exists():
        return False
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "topic"])
        for i, post in enumerate(_read(scale)):
            writer.writerow([post["text"].replace("\0", ""), "" if i % 10 else post["label"]])
    return True


# Alphabets, and how many of 20 words are written in each.
ALPHABETS = {
    "abcdefghijklmnopqrstuvwxyz": 14,
    "aàbcçdeéèfghiïlmnñoöprstuüv": 3,
    "абвгдежзийклмнопрстуфхцчшщыэюя": 1,
    "αβγδεζηθικλμνξοπρστυφχψω": 1,
    "日本語中文字東京大学生時間人年": 1,
}


def documents(size: int, seed: int = 0) -> list[str]:
    """Return texts of 1 KB, so many bytes in all, of words whose frequencies fall as 1 / rank."""
    rng = np.random.default_rng(seed)
    count = max(100, min(200_000, size // 200))
    shares = np.repeat(list(ALPHABETS), list(ALPHABETS.values()))
    words = [
        "".join(rng.choice(list(alphabet), length))
        for alphabet, length in zip(
            rng.choice(shares, count), rng.integers(2, 11, count), strict=True
        )
    ]
    p = 1.0 / (np.arange(count) + 2.7)
    drawn = rng.choice(count, (max(1, size // 1024), 150), p=p / p.sum())
    return [" ".join([words[i] for i in row]).capitalize() + "." for row in drawn.tolist()]


def _read(scale: float) -> list[dict[str, str]]:
    """Read one post in 1 / scale."""
    step = max(1, round(1 / scale))
    with gzip.open(NEWSGROUPS, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in islice(lines, 0, None, step)]


def few_labels(y: Any, each: int, seed: int = 0) -> Any:
    """Return the labels with all but `each` of every class missing."""
    rng = np.random.default_rng(seed)
    keep = [rng.permutation(np.flatnonzero(y == k))[:each] for k in np.unique(y)]
    labels = np.full(len(y), np.nan)
    labels[np.concatenate(keep)] = y[np.concatenate(keep)]
    return labels
