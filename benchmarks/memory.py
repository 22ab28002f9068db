"""How much memory counting the words of a file takes at most, a text a line: run in a process.

``python memory.py MODULE FILE`` prints by how many bytes the largest size of the process grew, or
nothing where the system does not say how large that is.
"""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path


def growth(module: str, path: Path) -> int | None:
    """Return the growth that a module's CountVectorizer makes, or None where it is not known."""
    command = [sys.executable, __file__, module, str(path)]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return int(shown) if shown else None


def _largest() -> int | None:
    status = Path("/proc/self/status")
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.exists() else None
    return 1024 * int(found[1]) if found else None


if __name__ == "__main__":
    make = importlib.import_module(sys.argv[1]).CountVectorizer
    make().fit(["what is there once"])
    with open(sys.argv[2], encoding="utf-8", newline="\n") as lines:
        texts = [line[:-1] for line in lines]
    before = _largest()
    make().fit_transform(texts)
    after = _largest()
    if before is not None and after is not None:
        print(after - before)
