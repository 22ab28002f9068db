"""Fuzz the readers of tables: arbitrary bytes give a frame or a TableError, and nothing else.

Run by `make fuzz`. The first byte of an input chooses the format, the next ones the settings.
"""

import contextlib
import gzip
import io
import sys
import tempfile
from pathlib import Path
from types import FunctionType

import atheris
import polars

from tacit import tables
from tacit.tables import arrowfile, columnar, delimited, jsonlines, parquetfile, textfiles

# One by one: imports of an editable install are not seen.
for place in (
    *(tables, columnar, delimited, jsonlines, textfiles),
    *(arrowfile, arrowfile.Table, parquetfile, parquetfile.Reader),
):
    for function in [f for f in vars(place).values() if isinstance(f, FunctionType)]:
        atheris.instrument_func(function)

NAMES = ("a", "a.csv", "a.tsv", "a.jsonl", "a.parquet", "a.arrow")
ENCODINGS = ("utf-8", "latin-1", "utf-16")
DELIMITERS = (None, ",", "\t", ";")
TEXTS = {
    "a.csv": b'id,text\n1,"a\nb"\n2,c\n',
    "a.tsv": b'id\ttext\n1\t"a\tb"\n2\tc\n',
    "a.jsonl": b'{"a": 1, "b": [1.5, null, "x"]}\n{"a": NaN}\n',
    "a": gzip.compress(b"id;text\n1;a\n2;c\n"),
}


def seeds(directory: Path) -> None:
    """Write small files of every format, to begin with."""
    frame = polars.DataFrame(
        {
            "id": [1, 2, None],
            "text": ["a", "b", "c" * 20],
            "x": [0.5, 2, 3],
            "kind": polars.Series(["p", None, "q"], dtype=polars.Categorical),
            "nested": [{"a": [True]}, {"a": []}, None],
        }
    )
    files = list(TEXTS.items())
    for compression in ("uncompressed", "lz4", "zstd"):
        for name, write in (("a.parquet", frame.write_parquet), ("a.arrow", frame.write_ipc)):
            write(file := io.BytesIO(), compression=compression)
            files.append((name, file.getvalue()))
    for number, (name, content) in enumerate(files):
        (directory / str(number)).write_bytes(bytes([NAMES.index(name), 0, 0, 9]) + content)


def read(data: bytes) -> None:
    """Read what follows the first four bytes in the way that they choose."""
    if len(data) < 4:
        return
    # Small pieces and blocks, so that small inputs have many of them.
    textfiles.PIECE = 1 + data[3]
    delimited.BLOCK = jsonlines.BLOCK = 1 + data[3] % 4
    path = DIRECTORY / NAMES[data[0] % len(NAMES)]
    path.unlink(missing_ok=True)  # a thread of polars may still read what it mapped before
    path.write_bytes(data[4:])
    settings = {
        "encoding": ENCODINGS[data[1] % len(ENCODINGS)],
        "delimiter": DELIMITERS[data[2] % len(DELIMITERS)],
    }
    with contextlib.suppress(tables.TableError):
        frame = tables.read(path, **settings)
        batches = list(tables.batches(path, rows=2, **settings))
        assert sum(batch.height for batch in batches) == frame.height > 0
        assert {tuple(batch.schema.items()) for batch in batches} == {tuple(frame.schema.items())}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as corpus, tempfile.TemporaryDirectory() as scratch:
        DIRECTORY = Path(scratch)
        seeds(Path(corpus))
        atheris.Setup([*sys.argv, corpus], read)
        atheris.Fuzz()
