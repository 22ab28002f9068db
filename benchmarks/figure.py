"""Draw the figure of docs/performance.md from results.json: ``make bench`` calls it."""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent


def draw(target: Path) -> None:
    """Draw a bar for each ratio of times, and a mark at the goal where there is one."""
    lines = json.loads((HERE / "results.json").read_text())
    lines = [line for line in reversed(lines) if not line["at_most"]]
    mpl.rcParams["svg.hashsalt"] = "tacit"  # the same file for the same figures
    figure, axes = plt.subplots(figsize=(10, 0.32 * len(lines) + 1.2), layout="constrained")
    places = range(len(lines))
    axes.barh(places, [line["ratio"] for line in lines], height=0.6, color="#4878a8")
    for place, line in zip(places, lines, strict=True):
        axes.text(
            1.01,
            place,
            f"{line['ratio']:.1f}",
            va="center",
            fontsize=8,
            transform=axes.get_yaxis_transform(),
        )
        if line["goal"]:
            axes.plot([line["goal"]] * 2, [place - 0.4, place + 0.4], color="#c44e52", lw=2)
    names = [f"{line['work']}  |  {line['against']}" for line in lines]
    axes.set_yticks(places, names, fontsize=8)
    axes.set_xscale("log")
    axes.set_xlim(1.0, 1.2 * max(max(line["ratio"], line["goal"] or 1.0) for line in lines))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlabel("how many times as long the other takes (red: the goal)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    draw(HERE.parent / "docs" / "performance.svg")
