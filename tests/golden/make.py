"""Write golden model files of the current format, and what they must predict.

    python tests/golden/make.py

Run it for a new format, or for what could not be saved before. Files that are there are never made
anew: they show that what people have saved can still be read.
"""

import json
import sys
from pathlib import Path
from typing import Any

import tacit
from tacit.io.container import FORMAT

sys.path.insert(0, str(Path(__file__).parents[1]))

from cases import CASES, K, hide

TABLE = {
    "text": ["a late goal won it", "the violin and the cello", "extra time, then a goal"] * 6,
    "colour": ["red", "blue", None] * 6,
    "answer": ["yes", "no", "yes", "?", "no", "yes"] * 3,
    "size": [0.5 + i * i / 7 for i in range(18)],
    "day": ["2024-01-31"] * 18,
}


def main() -> None:
    directory = Path(__file__).parent / str(FORMAT)
    directory.mkdir(exist_ok=True)
    path = directory / "expected.json"
    expected = json.loads(path.read_text()) if path.exists() else {}

    def keep(name: str, model: Any, rows: Any) -> None:
        name = f"{name}-{type(model).__name__}.safetensors"
        if not (directory / name).exists():
            model.save(directory / name)
            p = model.predict_proba(rows).tolist()
            expected[name] = {"X": rows.tolist() if hasattr(rows, "tolist") else rows, "p": p}

    for case in CASES:
        X, y = case.data(3, 30, missing=0.1)
        labels = [None if code is None else "abc"[code] for code in hide(y, 0.5)]
        settings = {"random_state": 0, "tol": 0.01, **({"alpha": 1.0} if case.smoothed else {})}
        models = case.classifier(**settings).fit(X, labels), case.mixture(K, **settings).fit(X)
        for model in models:
            keep(case.name, model, case.data(4, 3)[0])
        if case.name == "multinomial":
            parts = case.classifier(components_per_class=2, **settings).fit(X, labels)
            keep("components", parts, case.data(4, 3)[0])
    labels = ["sport", "music", None] * 6
    rows = {column: cells[:4] for column, cells in TABLE.items()}
    for name, model in {
        "table": tacit.TableClassifier(texts="counted"),
        "groups": tacit.TableMixture(2, alpha=1.0, random_state=0),
        "texts": tacit.TableClassifier(kinds={"text": "text"}),
        "parts": tacit.TableClassifier(
            kinds={"text": "text"}, components_per_class=2, numbers="normal", random_state=0
        ),
        "words": tacit.TableClassifier(kinds={"text": "text"}, word_labels={"goal": "sport"}),
        "alike": tacit.TableClassifier(kinds={"text": "text"}, random_state=0),
        "mixtures": tacit.TableClassifier(kinds={"text": "out"}, random_state=0),
        "corrected": tacit.TableClassifier(kinds={"text": "text"}, random_state=0),
        "ensemble": tacit.TableClassifier(kinds={"text": "text"}, random_state=0),
    }.items():
        keep("table" if name == "groups" else name, model.fit(TABLE, labels), rows)
    texts = tacit.TextClassifier(components_per_class=2).fit(TABLE["text"], labels)
    keep("texts", texts, TABLE["text"][:4])
    grouped = tacit.TextClassifier(random_state=0).fit(
        TABLE["text"], ["sport", "music", *[None] * 16]
    )
    keep("groups", grouped, TABLE["text"][:4])
    keep("corrected", tacit.TextClassifier().fit(TABLE["text"], labels), TABLE["text"][:4])
    keep(
        "ensemble",
        tacit.TextClassifier(random_state=0).fit(TABLE["text"], labels),
        TABLE["text"][:4],
    )
    path.write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
