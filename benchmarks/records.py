"""What was measured of few labels: records by set, cell, draw and contender, and their means.

Nothing here measures (accuracy.py) or says what must hold (accuracy_page.py).
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import contenders
import labelled
from contenders import BASELINES, STRICTER, TABLES, TEXTS
from labelled import SETS, Cell, Labelled
from provenance import Provenance

FIGURES = Path(__file__).with_name("accuracy.json")
NAMES = ("accuracy", "log_loss", "calibration_error", "seconds", "enough")  # as Record has them
DRAWS = 10
FURTHER = 40  # in all, of cells that miss a goal: to see what chance has to do with it
ENOUGH = 16  # labels a class from which single draws, calibration and log-loss are judged
# What takes longest, where it does: so many of the draws only.
FEWER_DRAWS = {("20newsgroups", name): 3 for name in ("logistic C=1", "logistic C=30", "fastText")}


@dataclass(frozen=True)
class Record:
    """What one contender did in one draw."""

    key: str  # of the set
    cell: str
    draw: int
    method: str
    accuracy: float
    log_loss: float
    calibration_error: float
    seconds: float
    enough: bool  # every class has 16 labels, or all that it has
    provenance: Provenance | None = None

    @property
    def place(self) -> tuple[str, str, int, str]:
        """What it is a record of."""
        return self.key, self.cell, self.draw, self.method


Place = tuple[str, str, int, str]


def methods_of(data: Labelled) -> list[str]:
    """Return the contenders for a set that are installed."""
    return [name for name in (TEXTS if data.texts else TABLES) if name not in contenders.absent()]


def stored(path: Path | None) -> dict[Place, Record]:
    """Return what runs before have measured: here, or as it is published."""
    if path is None:
        return {}
    if path.exists():
        lines = path.read_text(encoding="utf-8").splitlines()
        records = [_record(**json.loads(line)) for line in lines]
    else:
        records = list(published(json.loads(FIGURES.read_text(encoding="utf-8"))))
    return {record.place: record for record in records}


def _record(provenance: dict[str, str] | None = None, **figures: Any) -> Record:
    """Return a record from its JSON; those of old have no provenance."""
    return Record(**figures, provenance=Provenance(**provenance) if provenance else None)


def published(found: dict[str, Any]) -> Iterator[Record]:
    """Yield the records behind what `figures` returned."""
    provenances = [Provenance(**one) for one in found.get("provenances", ())]
    for part, first in (("sets", 0), ("further", DRAWS)):
        for key, cells in found.get(part, {}).items():
            for cell, methods in cells.items():
                for method, lists in methods.items():
                    each = zip(*(lists[name] for name in NAMES), strict=True)
                    places = lists.get("provenance", [None] * len(lists["accuracy"]))
                    for draw, (values, place) in enumerate(zip(each, places, strict=True), first):
                        own = None if place is None else provenances[place]
                        yield Record(key, cell, draw, method, *values, own)


def lines_of(records: Iterable[Any]) -> str:
    """Return records, of any dataclass, as JSON lines: `stored` reads them."""
    return "".join(json.dumps(asdict(record)) + "\n" for record in records)


class Results:
    """What has been measured, and what follows from it."""

    def __init__(
        self, records: Iterable[Record], draws: int, few: int | None, first: int = 0
    ) -> None:
        self.few, self.draws = few, range(first, draws)
        self.by_place = {record.place: record for record in records if record.draw in self.draws}

    @cached_property
    def sets(self) -> dict[str, Labelled]:
        """The sets of which something was measured."""
        seen = {key for key, *_ in self.by_place}
        known = *SETS, *labelled.OTHERS
        found = {key: labelled.load(key, self.few) for key in known if key in seen}
        return {key: data for key, data in found.items() if data is not None}

    def of(self, key: str, cell: Cell | str, method: str) -> dict[int, Record]:
        """Return the records of a contender in a cell, by draw."""
        found = (self.by_place.get((key, str(cell), i, method)) for i in self.draws)
        return {record.draw: record for record in found if record is not None}

    def mean(self, key: str, cell: Cell | str, method: str, what: str = "accuracy") -> float | None:
        """Return the mean of a figure of a cell over its draws, None where there is none."""
        values = [getattr(record, what) for record in self.of(key, cell, method).values()]
        return statistics.fmean(values) if values else None

    def cells(self, extra: bool = False, stricter: bool = False) -> Iterator[tuple[str, Cell]]:
        """Yield the cells that tacit and the baseline were measured in."""
        for key, data in self.sets.items():
            for cell in data.cells():
                if all(
                    self.of(key, cell, name) for name in ("tacit", *self.baseline(key, stricter))
                ) and (extra or not cell.extra):
                    yield key, cell

    def enough(self, stricter: bool = False) -> list[tuple[str, Cell]]:
        """Return the cells in all draws of which every class has 16 labels, or all it has."""
        return [
            (key, cell)
            for key, cell in self.cells(stricter=stricter)
            if all(record.enough for record in self.of(key, cell, "tacit").values())
        ]

    def baseline(self, key: str, stricter: bool = False) -> tuple[str, ...]:
        """Return what tacit is held against on a set."""
        texts = self.sets[key].texts
        if not stricter:
            return BASELINES[texts]
        return tuple(name for name in STRICTER if name in (TEXTS if texts else TABLES))

    def better(self, key: str, cell: Cell, stricter: bool = False) -> str:
        """Return the most accurate contender of the baseline in a cell on average."""
        of = self.baseline(key, stricter)
        means = {name: self.mean(key, cell, name) for name in of}
        return max(means, key=lambda name: means[name] or 0.0)

    def gains(self, key: str, cell: Cell, other: str) -> dict[int, float]:
        """Return how many points tacit is above another in each draw that both have."""
        ours, theirs = self.of(key, cell, "tacit"), self.of(key, cell, other)
        return {i: 100 * (ours[i].accuracy - theirs[i].accuracy) for i in ours if i in theirs}

    def gain(self, key: str, cell: Cell, stricter: bool = False) -> float:
        """Return how many points tacit is above the baseline in a cell, on average."""
        return statistics.fmean(self.gains(key, cell, self.better(key, cell, stricter)).values())

    def missed(self) -> Iterator[tuple[str, Cell]]:
        """Yield the cells that miss a goal: on average, or with enough labels in a single draw."""
        enough = self.enough()
        for place in self.cells():
            gains = self.gains(*place, self.better(*place))
            single = place in enough and min(gains.values()) < -3
            if single or statistics.fmean(gains.values()) < -0.5:
                yield place

    def named(self, key: str, cell: Cell) -> str:
        """Return what a cell is called."""
        return f"{self.sets[key].name}, {cell}"
