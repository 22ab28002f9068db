"""Real data for the tests: where they are, and what a test does that needs a file of them.

They are no part of the project. TACIT_DATA names their folder; without it they are looked for in
`shared/data` beside the project. `conftest.py` says at the end of a run how many figures that
others published were checked, which are the tests marked `published`.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

BESIDE = Path(__file__).parents[2] / "shared" / "data"
DATA = Path(os.environ.get("TACIT_DATA") or BESIDE).absolute()

published = pytest.mark.published


def data_file(name: str) -> Path:
    """Return the path of a file of the real data; skip the test where it is absent."""
    path = DATA / name
    if not DATA.is_dir():
        pytest.skip(f"no real data at {DATA} (TACIT_DATA names their folder)")
    if not path.exists():
        pytest.skip(f"no {name} in the real data at {DATA}")
    return path
