"""Ratios against what people use now, measured side by side: ``make bench``.

Every line is the ratio of two medians, the contenders taking turns in one process. Nothing here is
a verdict by the clock: the machine is shared, and only the ratios mean anything. Writes results.md
and results.json, from which figure.py draws the figure of docs/performance.md.
"""

from __future__ import annotations

import compileall
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import naive_bayes
from sklearn.feature_extraction import text

sys.path.insert(0, str(Path(__file__).parent))
import data
import memory
import peers
from peers import Work
from provenance import Provenance

import tacit
from tacit import em, kernels
from tacit.data.sparse import SLACK
from tacit.families import Categorical, Multinomial
from tacit.models.naive_bayes import NaiveBayes
from tacit.text import CountVectorizer


@dataclass
class Line:
    """How many times as long the other takes, and how many it shall be at least (or at most)."""

    work: str
    against: str
    ratio: float
    goal: float | None = None
    at_most: bool = False
    provenance: Provenance | None = None

    def row(self) -> str:
        """Return the line of the page."""
        sign = "at most" if self.at_most else "at least"
        goal = "" if self.goal is None else f"{sign} {self.goal:g}"
        if self.goal is not None and (self.ratio <= self.goal) != self.at_most:
            goal += ", not met"
        return f"| {self.work} | {self.against} | {self.ratio:.2f} | {goal} |"


def medians(contenders: dict[str, Work], turns: int) -> dict[str, float]:
    """Return the median seconds of each, all of them taking a turn before any takes the next."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for work in contenders.values():
        work()  # caches and allocators warm for all
    for _ in range(turns):
        for name, work in contenders.items():
            began = time.perf_counter()
            work()
            seconds[name].append(time.perf_counter() - began)
    return {name: statistics.median(values) for name, values in seconds.items()}


def lines(
    work: str, contenders: dict[str, Work], turns: int, goals: dict[str, float]
) -> Iterator[Line]:
    """Yield a line for each contender but tacit, which is the first."""
    seconds = medians(contenders, turns)
    ours = seconds.pop("tacit")
    for name, other in seconds.items():
        yield Line(work, name, other / ours, goals.get(name))


def middle(lines: Sequence[Line]) -> Line:
    """Return the line with the ratio in the middle, of the same work at several times."""
    return sorted(lines, key=lambda line: line.ratio)[len(lines) // 2]


def text_model(X: Any, K: int) -> tuple[NaiveBayes, Any]:
    """Return a multinomial model of rows, and params to start from."""
    model = NaiveBayes(Multinomial(1.0).bind(X))
    rows = model.rows(X)
    model = replace(model, family=model.family.for_em(rows.features))
    start = model.start(rows, np.random.default_rng(1).dirichlet(np.ones(K), X.shape[0]))
    return model, start


def em_fit(
    n: int, words: int, tokens: int, K: int, rounds: int, turns: int, goals: dict[str, float]
) -> Iterator[Line]:
    """Yield lines on whole fits to sparse text: so many rounds from one start, packing included.

    A round of the recipe takes the same time whatever the rows, and is measured alone.
    """
    X = data.topics(n, words, tokens, K)
    model, start = text_model(X, K)

    def fit() -> em.Fit[Any, Any]:
        return em.fit(model, [model.rows(X)], start, max_iter=rounds, tol=0.0)

    result = fit()
    count = len(result.trace) + 1  # the start is scored, too
    by_hand = start.features.log_p, start.class_log_prior, count
    contenders = {
        "tacit": fit,
        "SciPy float64 by hand": lambda: peers.scipy_rounds(X, *by_hand)(),
        "SciPy float32 by hand": lambda: peers.scipy_rounds(X.astype(np.float32), *by_hand)(),
    }
    if "the scikit-learn recipe" in goals:
        contenders["the scikit-learn recipe"] = peers.sklearn_round(X, np.arange(n) % K, K)
    # The first round is the same; after it, rounding leads along slightly different paths.
    for place, tolerance in ((0, 1e-9), (-1, 1e-5)):
        scored = 2 if place == 0 else count
        objective, own = peers.scipy_rounds(X, *by_hand[:2], scored)(), result.trace[place]
        assert abs(objective - own) < tolerance * abs(objective), "they found something else"
    seconds = medians(contenders, turns)
    if "the scikit-learn recipe" in seconds:
        seconds["the scikit-learn recipe"] *= count
    ours = seconds.pop("tacit")
    what = f"EM fit, {n:,} x {words:,}, {X.nnz:,} non-zeros, K={K}, {count} rounds"
    for name, other in seconds.items():
        yield Line(what, name, other / ours, goals.get(name))


def full_round(X: Any, K: int) -> tuple[Work, Any]:
    """Return a round of EM and the rows that it goes over, which are packed already."""
    model, start = text_model(X, K)
    rows = model.rows(X)
    statistics = model.expect(start, rows)

    def work() -> object:
        params = model.maximize(statistics)
        return model.expect(params, rows), model.log_prior(params)

    return work, rows


def bound(n: int, words: int, tokens: int, K: int, turns: int) -> Iterator[Line]:
    """Yield how long a round takes against two bare gathers and a softmax."""
    work, rows = full_round(data.zipf(n, words, tokens), K)
    table, threads = np.zeros(words * K + SLACK, np.float32), kernels.workers(None)

    def limit() -> None:
        rows.features.packed.gather(table, K, True, threads)
        rows.features.packed.gather(table, K, False, threads)

    seconds = medians({"tacit": work, "limit": limit}, turns)
    what = f"EM round, {n:,} x {words:,}, K={K}, as a multiple of the limit"
    ratio = seconds["tacit"] / seconds["limit"]
    yield Line(what, "two bare gathers and a softmax", ratio, 1.8, at_most=True)


def categories(n: int, turns: int) -> Iterator[Line]:
    """Yield lines on a round of latent class analysis."""
    K, X = 5, data.classes_of_codes(n, 20, 4, 5)
    model = NaiveBayes(Categorical(1.0).bind(X))
    rows = model.rows(X)
    start = model.start(rows, np.random.default_rng(0).dirichlet(np.ones(K), n))

    def ours() -> object:
        return model.maximize(model.expect(start, rows))

    what = f"categories, {n:,} x 20, K={K}, a round"
    p = np.random.default_rng(0).dirichlet(np.ones(4), (K, 20))
    torch_round = peers.pomegranate_round(X, p)
    if torch_round is not None:
        contenders = {"tacit": ours, "pomegranate": torch_round}
        yield from lines(what, contenders, turns, {"pomegranate": 150})
    if peers.stepmix(X[:100], K, "categorical", 1) is not None:
        seconds = medians(
            {
                "tacit": ours,
                "one": lambda: peers.stepmix(X, K, "categorical", 1),
                "more": lambda: peers.stepmix(X, K, "categorical", 5),
            },
            min(turns, 3),
        )
        per_round = (seconds["more"] - seconds["one"]) / 4
        yield Line(what, "StepMix", per_round / seconds["tacit"], 60)


def latent_classes(n: int, turns: int) -> Iterator[Line]:
    """Yield a line on binary rows, many of them equal, from the same start to convergence."""
    K, X = 3, data.classes_of_codes(n, 10, 2, 3)
    model = peers.stepmix(X, K, "binary", 1)
    if model is None:
        return
    start = model.predict_proba(X)
    ours = tacit.BernoulliMixture(K, init=start, tol=1e-9, max_iter=2000)
    contenders = {
        "tacit": lambda: ours.fit(X),
        "StepMix": lambda: peers.stepmix(X, K, "binary", 2000, 1e-9),
    }
    what = f"binary rows, {n:,} x 10, K={K}, to convergence"
    yield from lines(what, contenders, min(turns, 3), {"StepMix": 50})


def supervised(n: int, words: int, tokens: int, turns: int) -> Iterator[Line]:
    """Yield lines on fitting and predicting with complete labels."""
    rng = np.random.default_rng(0)
    X, y = data.zipf(n, words, tokens), rng.integers(0, 20, n)
    codes, numbers = rng.integers(0, 4, (10 * n, 20)), rng.normal(size=(10 * n, 20))
    many = rng.integers(0, 5, 10 * n)
    for name, rows, labels, goals in [
        ("MultinomialNB", X, y, (4, 4)),
        ("BernoulliNB", X, y, (4, 4)),
        ("CategoricalNB", codes, many, (8, None)),
        ("GaussianNB", numbers, many, (4, None)),
    ]:
        ours, theirs = getattr(tacit, name)(), getattr(naive_bayes, name)()
        for verb, goal in zip(("fit", "predict_log_proba"), goals, strict=True):
            given = (rows, labels) if verb == "fit" else (rows,)
            contenders = {
                "tacit": lambda m=ours, v=verb, g=given: getattr(m, v)(*g),
                "scikit-learn": lambda m=theirs, v=verb, g=given: getattr(m, v)(*g),
            }
            what = f"{name} {verb}, all labels, {rows.shape[0]:,} x {rows.shape[1]:,}"
            yield from lines(
                what, contenders, turns, {} if goal is None else {"scikit-learn": goal}
            )


def newsgroups(scale: float, turns: int) -> Iterator[Line]:
    """Yield a line on a whole fit to 20 Newsgroups with 5 labels a class."""
    found = data.newsgroups(scale)
    if found is None:
        return
    X, y = found
    labels = data.few_labels(y, 5)
    nb = tacit.MultinomialNB()
    rounds = nb.fit(X, labels).n_iter_
    contenders = {
        "tacit": lambda: nb.fit(X, labels),
        "SciPy float64 by hand": lambda: peers.scipy_fit(X, labels, rounds),
    }
    what = f"20 Newsgroups, {X.shape[0]:,} x {X.shape[1]:,}, 5 labels a class, fit, {rounds} rounds"
    yield from lines(what, contenders, min(turns, 5), {"SciPy float64 by hand": 6})


def scaling(scale: float, turns: int) -> Iterator[Line]:
    """Yield the exponents with which a round grows with each size, the others being the same."""
    base = {"n": 50_000, "words": 50_000, "tokens": 4_000_000, "K": 10}
    names = {"n": "rows", "words": "columns", "tokens": "non-zeros", "K": "classes"}
    for name, word in names.items():
        factors = [1, 2, 4]
        works = {}
        for factor in factors:
            size = {key: max(4, int(scale * value)) for key, value in base.items() if key != "K"}
            size["K"] = base["K"]
            size[name] *= factor
            X = data.zipf(size["n"], size["words"], size["tokens"])
            works[str(factor)] = full_round(X, size["K"])[0]
        seconds = medians(works, turns)
        slope = np.polyfit(np.log(factors), np.log([seconds[str(f)] for f in factors]), 1)[0]
        what = f"EM round, exponent as the {word} are doubled twice"
        yield Line(what, "linear: 1", float(slope), 1.05, at_most=True)


def first_use(turns: int) -> Iterator[Line]:
    """Yield lines on the import and on a small fit."""
    peer = "sklearn.naive_bayes"
    # An installer compiles what it installs, as it has done for the peer.
    compileall.compile_dir(Path(tacit.__file__).parent, quiet=2)

    def running(statement: str) -> Work:
        command = [sys.executable, "-c", statement]
        return lambda: subprocess.run(command, check=True)

    # Modules are loaded when they are first used: the second is what it takes to use one.
    statements = ["import tacit", "from tacit import MultinomialNB"]
    seconds = medians({what: running(what) for what in [*statements, f"import {peer}"]}, turns)
    for what in statements:
        ratio = seconds[what] / seconds[f"import {peer}"]
        yield Line(what, f"import {peer}", ratio, 1.2, at_most=True)
    pairs = [(first_fit("tacit"), first_fit(peer)) for _ in range(turns)]
    ours, theirs = map(statistics.median, zip(*pairs, strict=True))
    ratio = theirs / ours
    yield Line(
        "the first fit of a process, 1,000 x 500, all labels", f"{peer}.MultinomialNB", ratio
    )


def first_fit(module: str) -> float:
    """Return the seconds that the first fit of a process takes."""
    script = f"""
import time
import numpy as np
from scipy import sparse
from {module} import MultinomialNB
X = sparse.random_array((1000, 500), density=0.1, format="csr", rng=0)
y = np.arange(1000) % 4
began = time.perf_counter()
MultinomialNB().fit(X, y)
print(time.perf_counter() - began)
"""
    command = [sys.executable, "-c", script]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def version(name: str) -> str | None:
    """Return the version of a package that is installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def vectorizer(scale: float, turns: int) -> Iterator[Line]:
    """Yield lines on counting words: 20 Newsgroups, and a quarter of 116 MB of 1 KB documents."""
    size = int(scale * 29e6)
    texts = data.documents(size)
    yield from counting(f"{len(texts):,} documents of several scripts", texts, turns)
    yield from counting("20 Newsgroups", data.posts(scale), turns)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "texts"
        path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8", newline="\n")
        ours, theirs = (memory.growth(module, path) for module in ("tacit.text", text.__name__))
    if ours and theirs:
        what = f"CountVectorizer, {len(texts):,} documents of several scripts, memory"
        yield Line(what, "scikit-learn", theirs / ours, 1)


def counting(what: str, texts: list[str] | None, turns: int) -> Iterator[Line]:
    """Yield lines on counting the words of texts, with one thread and with two."""
    if texts is None:
        return
    ours = {f"{n} threads" if n > 1 else "1 thread": CountVectorizer(n_jobs=n) for n in (1, 2)}
    works = {name: partial(one.fit_transform, texts) for name, one in ours.items()}
    theirs = text.CountVectorizer()
    seconds = medians({**works, "scikit-learn": lambda: theirs.fit_transform(texts)}, min(turns, 3))
    for name, goal in zip(works, (5, 8), strict=True):
        ratio = seconds["scikit-learn"] / seconds[name]
        yield Line(f"CountVectorizer, {what}, {name}", "scikit-learn", ratio, goal)


def filling(scale: float, turns: int) -> Iterator[Line]:
    """Yield lines on `tacit fill`, from file to file, against pandas and scikit-learn.

    Each is a process of its own. The recipe of EM takes so long that it gets a quarter of the
    posts, and ten rounds, about as many as each of the models that tacit pools.
    """
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "posts.csv", Path(folder) / "filled.csv"
        for what, part, rounds in (("labels alone", 1.0, 0), ("with EM", 0.25, 10)):
            if not data.table(source, part * scale):
                return
            weight = "auto" if rounds else "0"
            options = "--label", "topic", "-o", target, "--unlabeled", weight, "--json"
            ours = [sys.executable, "-m", "tacit", "fill", source, *options]
            facts = json.loads(subprocess.run(ours, capture_output=True, check=True).stdout)
            script = Path(__file__).with_name("pipeline.py")
            theirs = [sys.executable, script, source, target, str(rounds)]
            works = {
                name: partial(subprocess.run, command, check=True, capture_output=True)
                for name, command in (("tacit", ours), ("pandas and scikit-learn", theirs))
            }
            seconds = medians(works, 1 if rounds else min(turns, 3))
            ratio = seconds["pandas and scikit-learn"] / seconds["tacit"]
            work = f"tacit fill, {facts['rows']:,} posts of 20 Newsgroups, {what}"
            yield Line(work, "pandas and scikit-learn", ratio)


def limits() -> str:
    """Return what the machine's memory gives."""
    array = np.ones(1 << 26)
    seconds = medians({"read": lambda: array.sum(), "copy": lambda: array.copy()}, 5)
    rate = {name: array.nbytes / 1e9 / took for name, took in seconds.items()}
    return f"One thread reads {rate['read']:.0f} GB/s and copies {rate['copy']:.0f} GB/s"


def main(scale: float = 1.0, turns: int = 9) -> tuple[str, list[Line]]:
    """Run everything at a scale of the sizes, and return the page and its lines."""
    provenance = Provenance.here()
    n, words, tokens = (int(scale * size) for size in (20_000, 50_000, 2_100_000))
    by_hand = "SciPy float64 by hand", "SciPy float32 by hand"
    goals = {**dict(zip(by_hand, (4, 2.7), strict=True)), "the scikit-learn recipe": 60}
    large = dict(zip(by_hand, (8, 4), strict=True))
    few, many = max(1, turns // 3), 3 * turns

    def rounds() -> list[Line]:
        return [
            *em_fit(n, words, tokens, 20, 15, turns, goals),
            *bound(n, words, tokens, 20, many),
        ]

    def fits() -> list[Line]:
        return list(supervised(n, words, tokens, many))

    with kernels.kernel_threads(None):  # all cores: a fit asks for them once, too
        short = [(rounds(), fits())]
        large_fits = [
            *em_fit(10 * n, 2 * words, 12 * tokens, 20, 15, few, large),
            *em_fit(50 * n, words, 35 * tokens, 2, 15, few, {by_hand[0]: 6}),
            *categories(25 * n, turns),
            *latent_classes(5 * n, turns),
        ]
        short.append((rounds(), fits()))
        others = [
            *newsgroups(scale, turns),
            *vectorizer(scale, turns),
            *filling(scale, turns),
            *scaling(scale, turns),
            *first_use(turns),
        ]
        short.append((rounds(), fits()))
    of_rounds, of_fits = (
        list(map(middle, zip(*each, strict=True))) for each in zip(*short, strict=True)
    )
    found = [
        replace(line, provenance=provenance)
        for line in (*of_rounds, *large_fits, *of_fits, *others)
    ]
    names = ("numpy", "scipy", "scikit-learn", "stepmix", "pomegranate", "torch")
    present = [name for name in names if version(name)]
    versions = ", ".join(f"{name} {version(name)}" for name in present)
    page = [
        "# How fast: tacit against what people use now",
        "",
        "Written by `make bench`. How many times as long the other takes: medians of up to "
        f"{many} turns, taken in turn in one process on a shared machine; what takes milliseconds "
        "is measured at the beginning, amid the rest and at the end, and the ratio in the middle "
        "of the three is told, as the machine is not the same all the time. Zipf counts. A peer "
        "that is not installed has no line (`pip install tacit[bench]`, `tacit[bench-torch]`).",
        "",
        f"Measured at {provenance}, {versions}; {kernels.workers(None)} threads. {limits()}.",
        "",
        "| work | against | ratio | goal |",
        "|---|---|---|---|",
        *(line.row() for line in found),
        "",
    ]
    return "\n".join(page), found


if __name__ == "__main__":
    page, found = main()
    here = Path(__file__)
    here.with_name("results.md").write_text(page)
    here.with_name("results.json").write_text(
        json.dumps([asdict(line) for line in found], indent=1)
    )
    sys.stdout.write(page)
