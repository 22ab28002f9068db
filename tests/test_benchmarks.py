"""The benchmarks run, small, so that they do not rot; their figures are not looked at."""

import importlib.util
from pathlib import Path


def test_benchmarks_run():
    path = Path(__file__).parents[1] / "benchmarks" / "run.py"
    spec = importlib.util.spec_from_file_location("benchmarks_run", path)
    run = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(run)
    page = run.main(scale=0.01, turns=1)
    assert page.count("x |") == 3 + 2 + 8
