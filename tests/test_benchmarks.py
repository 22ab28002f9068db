"""The benchmarks run, small, so that they do not rot; their figures are not looked at."""

import importlib.util
import sys
from pathlib import Path

import pytest

from tacit import engine


@pytest.mark.skipif(engine.native() is None, reason="the benchmark measures the native kernels")
def test_benchmarks_run():
    path = Path(__file__).parents[1] / "benchmarks" / "run.py"
    spec = importlib.util.spec_from_file_location("benchmarks_run", path)
    run = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = run  # for dataclasses
    spec.loader.exec_module(run)
    page, lines = run.main(scale=0.01, turns=1)
    assert len(lines) >= 3 + 1 + 2 + 2 + 8 + 2 + 4 + 1
    assert page.count("\n| ") == len(lines) + 1
