"""Records of fits, what they state and what is true, and the page that is made of them.

Nothing here fits a model (trust.py).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, product

from provenance import Provenance, origins
from run import version

SIZES = (4, 16, 64)  # labels a class; as many in all where they are drawn at random
Z = 1.96
# Of the tables of the page: what they have, and how it is written.
COLUMNS = {
    "states an interval": "{:.0%}",
    "coverage, hidden rows": "{:.0%}",
    "coverage, test rows": "{:.0%}",
    "attainable": "{:.0%}",
    "bias, hidden rows": "{:+.1f}",
    "bias, test rows": "{:+.1f}",
    "probability - accuracy, hidden rows": "{:+.1f}",
    "probability - accuracy, test rows": "{:+.1f}",
    "uses unlabelled rows": "{:.0%}",
    "stated help": "{:+.1f}",
    "true help": "{:+.1f}",
    "bias of help": "{:+.1f}",
}

Place = tuple[str, int, int, int, bool]


@dataclass(frozen=True)
class Fit:
    """What a fit states, and what is true."""

    key: str  # of the set
    rows: int  # of the set, at most
    draw: int
    size: int  # labels a class, or as many in all
    balanced: bool  # by class, else drawn at random
    texts: bool
    labels: int
    classes: int  # of the training rows
    unlabelled_classes: int  # with no label
    single_classes: int  # with one label
    hidden: int  # training rows whose labels are hidden
    tested: int  # test rows
    probability: float  # of the filled labels, on average
    accuracy: float  # of the filled labels
    test_probability: float
    test_accuracy: float
    accuracy_without: float  # on the hidden rows, of a fit to the labelled rows alone
    weight: float  # of unlabelled rows
    seconds: float
    # Stated from held-out labels, None if there are too few.
    held_out: int | None = None
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    stated_without: float | None = None  # accuracy without unlabelled rows
    stated_with: float | None = None
    provenance: Provenance | None = None

    @property
    def place(self) -> Place:
        """What it is a record of."""
        return self.key, self.rows, self.draw, self.size, self.balanced

    @property
    def fewest(self) -> int:
        """The labels of the class that has the fewest: 0, 1, or 2 for more."""
        return 0 if self.unlabelled_classes else 1 if self.single_classes else 2


def compared(fit: Fit) -> dict[str, float]:
    """Return the columns of the page for a fit, as far as it states what they compare."""
    found = {
        "states an interval": float(fit.estimate is not None),
        "probability - accuracy, hidden rows": 100 * (fit.probability - fit.accuracy),
        "probability - accuracy, test rows": 100 * (fit.test_probability - fit.test_accuracy),
        "uses unlabelled rows": float(fit.weight > 0),
    }
    if fit.estimate is not None and fit.low is not None and fit.high is not None:
        error = (fit.high - fit.low) / (2 * Z)
        measured = math.sqrt(fit.accuracy * (1 - fit.accuracy) / fit.hidden)
        exact = math.erf(Z * error / math.hypot(error, measured) / math.sqrt(2))
        found |= {
            "coverage, hidden rows": fit.low <= fit.accuracy <= fit.high,
            "coverage, test rows": fit.low <= fit.test_accuracy <= fit.high,
            "attainable": exact,
            "bias, hidden rows": 100 * (fit.estimate - fit.accuracy),
            "bias, test rows": 100 * (fit.estimate - fit.test_accuracy),
        }
    if fit.weight > 0 and fit.stated_with is not None and fit.stated_without is not None:
        stated = 100 * (fit.stated_with - fit.stated_without)
        true = 100 * (fit.accuracy - fit.accuracy_without)
        found |= {"stated help": stated, "true help": true, "bias of help": stated - true}
    return found


def table(title: str, groups: Iterable[tuple[str, list[Fit]]]) -> Iterator[str]:
    """Yield the lines of a table: means over each group of fits."""
    yield f"| {title} | fits | {' | '.join(COLUMNS)} |"
    yield "|---" * (len(COLUMNS) + 2) + "|"
    for name, fits in groups:
        rows, means = [compared(fit) for fit in fits], []
        for column, form in COLUMNS.items():
            values = [row[column] for row in rows if column in row]
            means.append(form.format(statistics.fmean(values)) if values else "")
        if fits:
            yield f"| {name} | {len(fits)} | {' | '.join(means)} |"


def by_labels(fits: list[Fit]) -> Iterator[tuple[str, list[Fit]]]:
    """Yield fits by the number of labels, by classes that have too few, and all."""
    for size, balanced in product(SIZES, (True, False)):
        name = f"{size} a class" if balanced else f"as many as {size} a class, at random"
        yield name, [fit for fit in fits if (fit.size, fit.balanced) == (size, balanced)]
    yield "all balanced", [fit for fit in fits if fit.balanced]
    yield "all at random", [fit for fit in fits if not fit.balanced]
    for least, name in enumerate(("0", "1", "2 or more")):
        yield f"fewest labels of a class: {name}", [fit for fit in fits if fit.fewest == least]
    yield "all", fits


def page(fits: list[Fit], rows: int) -> str:
    """Return the page."""
    versions = [f"{name} {version(name)}" for name in ("numpy", "scipy", "scikit-learn")]
    lines = [
        "# Are the stated figures true",
        "",
        f"Written by `make bench-trust`. Fits of `TextClassifier` and `TableClassifier` with "
        f"default settings to at most {rows:,} rows of each set, most of whose labels are hidden "
        "from the fit: labelled rows are so many of each class (a class with fewer rows gives all "
        f"of them), or as many in all, drawn at random. Written with {', '.join(versions)}.",
        "",
        "Coverage is that of the stated 95 % interval of the accuracy on new rows: how often the "
        "accuracy on the hidden rows, or on test rows, lies in it. Test rows are the test split of "
        "20 Newsgroups and R8, one university of WebKB, and of other sets a third, drawn at "
        "random. As the accuracy on hidden rows is itself measured on a sample, even an exact "
        "interval would not cover it in 95 % of the fits but in those of the column "
        "*attainable*. Biases are stated minus true, in points, and so is *probability - "
        "accuracy*, of the labels filled in for hidden rows, which took part in the fit, or "
        "predicted for test rows. Help is the accuracy with unlabelled rows minus that without, of "
        "the fits that use them: stated from held-out labels, and true on the hidden rows, against "
        "a fit to the labelled rows alone, whose class prior is the class proportions of the "
        "labels. A fit with too few labels to hold any out states no interval and no help. Draws "
        "of a set share rows: the fits of a line are not independent.",
        "",
    ]
    for name, texts in (("Texts", True), ("Tables", False)):
        own = [fit for fit in fits if fit.texts == texts]
        if own:
            lines += [f"## {name}", "", *table("labels", by_labels(own)), ""]
            sets = groupby(own, key=lambda fit: fit.key)
            lines += [*table("set", ((key, [*group]) for key, group in sets)), ""]
    lines += ["## Texts and tables", "", *table("labels", by_labels(fits)), ""]
    origin = origins(fit.provenance for fit in fits)
    return "\n".join([*lines, "## Where the figures come from", "", *origin, ""])
