"""Where a figure comes from: commit, date and machine, which every record of a benchmark has.

Records from before this was kept have none. Nothing here measures or reads records.
"""

from __future__ import annotations

import os
import platform
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parents[1]
# What a figure depends on: not the pages, which a benchmark writes.
MEASURED = ("src", "benchmarks", "pyproject.toml", "CMakeLists.txt")
PAGES = (":(exclude)benchmarks/*.md", ":(exclude)benchmarks/*.json")


@dataclass(frozen=True, order=True)
class Provenance:
    """Where a figure comes from, and when."""

    date: str  # UTC
    commit: str
    machine: str

    def __str__(self) -> str:
        return f"commit {self.commit}, {self.date}, {self.machine}"

    @classmethod
    def here(cls) -> Provenance:
        """Return that of what is measured now."""
        return cls(f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", commit(ROOT), machine())


def commit(root: Path) -> str:
    """Return the commit of a working copy, with a mark if what is measured was changed since."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(root), *arguments]
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout.strip()

    try:
        name = git("rev-parse", "--short", "HEAD")
        changed = git("status", "--porcelain", "--", *MEASURED, *PAGES)
    except (OSError, subprocess.CalledProcessError):  # no git, or no working copy
        return "unknown"
    return f"{name}+changes" if changed else name


def machine() -> str:
    """Return processor, cores, memory and Python of this machine."""
    parts = [processor(), f"{cores()} cores", memory(), f"Python {platform.python_version()}"]
    return ", ".join(part for part in parts if part)


def processor() -> str:
    """Return the name of the processor, or its kind where the system does not say."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    found = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return found[0] if found else platform.machine()


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory() -> str:
    """Return the size of the memory, or nothing where the system does not say."""
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return ""
    return f"{size / 2**30:.1f} GiB memory"


def origins(found: Iterable[Provenance | None]) -> Iterator[str]:
    """Yield a line of a page for each run that records come from, the last one first."""
    counts = Counter(found)
    unknown = counts.pop(None, 0)
    for one in sorted((one for one in counts if one), reverse=True):
        yield f"- {one}: {counts[one]:,} records"
    if unknown:
        yield f"- before commits, dates and machines were kept: {unknown:,} records"
