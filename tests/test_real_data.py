"""The real data are found by TACIT_DATA, and a run says which published figures it checked."""

from types import SimpleNamespace

import pytest

import real_data
from conftest import told_of_figures


def reports(*reasons, marked=True):
    """Return as many reports of tests, with why they were skipped."""
    keywords = {"test_x": 1, "published": 1} if marked else {"test_published.py": 1}
    return [
        SimpleNamespace(keywords=keywords, longrepr=("file.py", 1, f"Skipped: {reason}"))
        for reason in reasons
    ]


def test_the_line_on_published_figures():
    others = reports("no Windows", "no Windows", marked=False)
    assert told_of_figures({"passed": others, "skipped": others}) is None
    passed = reports(*"abc") + others
    assert told_of_figures({"passed": passed}) == "published figures: 3 checked"
    found = told_of_figures({"passed": passed, "failed": reports("d")})
    assert found == "published figures: 4 checked, 1 failed"
    skipped = reports("no data", "no data") + others
    found = told_of_figures({"passed": passed, "skipped": skipped})
    assert found == "published figures: 3 checked, 2 skipped: no data"
    found = told_of_figures({"skipped": skipped + reports("no lca/a.csv")})
    assert found == "published figures: 0 checked, 3 skipped: no data (2), no lca/a.csv (1)"


def test_a_test_whose_file_is_absent_is_skipped(tmp_path, monkeypatch):
    monkeypatch.setattr(real_data, "DATA", tmp_path / "nowhere")
    with pytest.raises(pytest.skip.Exception, match=r"no real data at .*nowhere \(TACIT_DATA"):
        real_data.data_file("lca/a.csv")
    monkeypatch.setattr(real_data, "DATA", tmp_path)
    with pytest.raises(pytest.skip.Exception, match=r"no lca/a\.csv in the real data at"):
        real_data.data_file("lca/a.csv")
    (tmp_path / "lca").mkdir()
    (tmp_path / "lca/a.csv").touch()
    assert real_data.data_file("lca/a.csv") == tmp_path / "lca/a.csv"
