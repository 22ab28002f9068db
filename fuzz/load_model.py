"""Fuzz `tacit.load`: whatever a file holds, it is a model that predicts, or ModelFileError.

    python fuzz/load_model.py -max_total_time=60

Options are libFuzzer's. It starts from the golden files, and changes bytes, the tree of JSON or an
array of a model file, so that most of what it makes is not refused at the door.
"""

import json
import random
import sys
import tempfile
import warnings
from pathlib import Path
from types import FunctionType
from typing import Any

import atheris
import numpy as np

from tacit import modelfile
from tacit.io import container, records
from tacit.modelfile import registry

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from modelfiles import GOLDEN, at, is_read_or_refused, pack, places, unpack

# One by one: imports of an editable install are not seen.
for module in (modelfile, container, records, registry):
    for function in [f for f in vars(module).values() if isinstance(f, FunctionType)]:
        atheris.instrument_func(function)

directory = Path(tempfile.mkdtemp())


def try_file(data: bytes) -> None:
    """Try a file of these bytes."""
    path = directory / "model"
    path.write_bytes(data)
    is_read_or_refused(path)


def changed(node: Any) -> Any:
    """Change the text of a node of the tree; what is no JSON any more becomes text."""
    text = atheris.Mutate(json.dumps(node).encode(), 1000).decode("utf-8", "replace")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def mutate(data: bytes, max_size: int, seed: int) -> bytes:
    """Change a node of the tree or the bytes of one array of a model file, if it is one."""
    draw = random.Random(seed)
    path = directory / "mutated"
    path.write_bytes(data)
    try:
        content, arrays = unpack(path)
    except Exception:  # no longer a model file: any bytes will do
        return atheris.Mutate(data, max_size)
    choice = draw.random()
    if choice < 0.1:
        return atheris.Mutate(data, max_size)
    if choice < 0.7 or not arrays:
        where = draw.choice([path for path in places(content) if path])
        at(content, where[:-1])[where[-1]] = changed(at(content, where))
    else:
        name = draw.choice(sorted(arrays))
        old = arrays[name]
        new = atheris.Mutate(old.tobytes(), old.nbytes or 1)[: old.nbytes].ljust(old.nbytes, b"\0")
        arrays[name] = np.frombuffer(new, old.dtype).reshape(old.shape)
    return pack(content, arrays)[:max_size]


def main() -> None:
    """Start from the golden files."""
    warnings.simplefilter("ignore")
    corpus = directory / "corpus"
    corpus.mkdir()
    for path in GOLDEN:
        (corpus / path.name).write_bytes(path.read_bytes())
    arguments = [sys.argv[0], "-max_len=32768", *sys.argv[1:], str(corpus)]
    atheris.Setup(arguments, try_file, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
