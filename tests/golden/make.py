"""Write golden model files of the current format, and what they must predict.

    python tests/golden/make.py

Run it once for a new format. The files of a format that was released are never made anew: they
show that what people have saved can still be read.
"""

import json
import sys
from pathlib import Path

import tacit
from tacit.modelfile.container import FORMAT

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
    expected = {}
    for case in CASES:
        X, y = case.data(3, 30, missing=0.1)
        labels = [None if code is None else "abc"[code] for code in hide(y, 0.5)]
        settings = {"random_state": 0, "tol": 0.01, **({"alpha": 1.0} if case.smoothed else {})}
        models = case.classifier(**settings).fit(X, labels), case.mixture(K, **settings).fit(X)
        for model in models:
            name = f"{case.name}-{type(model).__name__}.safetensors"
            model.save(directory / name)
            rows = case.data(4, 3)[0]
            expected[name] = {"X": rows.tolist(), "p": model.predict_proba(rows).tolist()}
    labels = ["sport", "music", None] * 6
    tables = tacit.TableClassifier(), tacit.TableMixture(2, alpha=1.0, random_state=0)
    for model in tables:
        model.fit(TABLE, labels)
        name = f"table-{type(model).__name__}.safetensors"
        model.save(directory / name)
        rows = {column: cells[:4] for column, cells in TABLE.items()}
        expected[name] = {"X": rows, "p": model.predict_proba(rows).tolist()}
    (directory / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
