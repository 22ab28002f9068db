"""What the tests of model files and the fuzzer share: taking files apart, and trying them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import numpy as tensors
from safetensors import safe_open

import tacit

GOLDEN = sorted((Path(__file__).parent / "golden").glob("*/*.safetensors"))


def unpack(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the JSON and the arrays of a model file."""
    with safe_open(path, framework="np") as file:
        return json.loads(file.metadata()["tacit"]), tensors.load_file(path)


def pack(content: Any, arrays: dict[str, np.ndarray]) -> bytes:
    """Return a model file of JSON, an object or text, and arrays."""
    text = content if isinstance(content, str) else json.dumps(content)
    return tensors.save(arrays, {"tacit": text})


def places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every node of a tree of JSON."""
    yield path
    if isinstance(tree, dict | list):
        inner = tree.items() if isinstance(tree, dict) else enumerate(tree)
        for key, one in inner:
            yield from places(one, (*path, key))


def at(tree: Any, path: tuple[Any, ...]) -> Any:
    """Return the node of a tree at a path."""
    for key in path:
        tree = tree[key]
    return tree


def is_read_or_refused(path: Path) -> bool:
    """Return whether a file is a model; then it predicts. Else only ModelFileError will do."""
    try:
        model = tacit.load(path)
    except tacit.ModelFileError as error:
        said = str(error)
        assert str(path) in said
        assert said.isprintable()
        assert len(said) < 1000
        return False
    if getattr(model, "n_features_in_", 0) > 1000:  # columns of no part take no room in a file
        return True
    if isinstance(model, tacit.TextClassifier):
        X: Any = ["", "a late goal"]
    elif hasattr(model, "columns_"):
        X = {column.name: [None, "1"] for column in model.columns_}
    else:
        X = np.zeros((2, model.n_features_in_))
        X[1] = np.nan
    joint_of = getattr(model, "predict_joint_log_proba", getattr(model, "_joint", None))
    with np.errstate(over="ignore"):  # a row can be as good as impossible
        proba, joint = model.predict_proba(X), joint_of(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-6)
    assert not np.isnan(joint).any()
    model.save(path)
    return True
