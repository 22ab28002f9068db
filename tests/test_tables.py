"""Tables in files: what is written is read again, and what is broken is said in one line."""

import base64
import csv
import gzip
import io
import json
import os
import re
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from real_data import data_file, published
from tacit import tables
from tacit.tables import TableError, arrowfile, columnar, delimited, jsonlines, textfiles
from tacit.tables.parquetfile import parquet_sizes

FILES = ["a.csv", "a.tsv", "a.jsonl", "a.csv.gz", "a.parquet", "a.arrow"]

characters = st.one_of(
    st.sampled_from("\",;|\t\r\n'= -@ab{}\\\ufeff\x85\u2028"),
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"),
)
texts = st.text(characters, max_size=8)


@st.composite
def text_tables(draw):
    names = draw(
        st.lists(texts.filter(lambda name: name.strip()), min_size=1, max_size=4, unique=True)
    )
    rows = st.lists(st.tuples(*[texts] * len(names)), min_size=1, max_size=6)
    return pl.DataFrame(draw(rows), schema=dict.fromkeys(names, pl.String), orient="row")


@pytest.fixture
def small(monkeypatch):
    """Let pieces and blocks end everywhere."""
    monkeypatch.setattr(textfiles, "PIECE", 5)
    monkeypatch.setattr(delimited, "BLOCK", 2)
    monkeypatch.setattr(jsonlines, "BLOCK", 2)


def write(path, content):
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def piped(content, code):
    """Run code in a process that gets the content through a pipe."""
    code = f"import sys\nfrom tacit import tables\n{code}"
    found = subprocess.run([sys.executable, "-c", code], input=content, capture_output=True)
    assert found.returncode == 0, found.stderr.decode()
    return found.stdout


@pytest.mark.parametrize("name", FILES)
@pytest.mark.usefixtures("small")
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(frame=text_tables(), rows=st.integers(1, 7))
def test_what_is_written_is_read_again(tmp_path, name, frame, rows):
    path = tmp_path / name
    batches = [frame[start : start + rows] for start in range(0, frame.height, rows)]
    assert tables.write(frame, path) == frame.height
    assert tables.read(path).equals(frame)
    assert tables.write(iter(batches), path) == frame.height
    assert tables.read(path).equals(frame)
    found = list(tables.batches(path, rows=rows))
    assert [batch.height for batch in found] == [batch.height for batch in batches]
    assert pl.concat(found).equals(frame)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("last", [True, False])
@pytest.mark.parametrize("quote", ["", '"'])
@pytest.mark.parametrize("blank", [True, False])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|"])
def test_ends_of_lines(tmp_path, small, end, last, quote, blank, mark, delimiter):
    rows = [["id", "text"], ["007", ""], ["1", f"{quote}a b{quote}"], ["", "é"]]
    lines = [delimiter.join(row) for row in rows]
    text = (end * (1 + blank)).join(["", *lines] if blank else lines) + end * last
    frame = tables.read(write(tmp_path / "a.txt", mark + text.encode()))
    assert frame.columns == ["id", "text"]
    assert frame.rows() == [("007", ""), ("1", "a b"), ("", "é")]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a"])
@pytest.mark.usefixtures("small")
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(text=st.text(st.sampled_from('ab",\t\n\r'), max_size=40))
def test_cells_are_those_of_csv(tmp_path, name, text):
    """The oracle is Python's csv on the whole text; where a row is ragged, its line is named."""
    path = write(tmp_path / name, text)
    delimiter = "\t" if name == "a.tsv" else ","
    try:
        found = tables.read(path, delimiter=delimiter)
    except TableError:
        return
    end = ["\0"]
    readings = [
        [row for row in csv.reader([*lines, *end], delimiter=delimiter, quoting=quoting) if row]
        for lines in [list(io.StringIO(text, newline=""))]
        for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_NONE)
    ]
    rows = [found.columns, *map(list, found.rows()), end]
    assert rows == readings[0] or (rows == readings[1] and delimiter == "\t")


@pytest.mark.usefixtures("small")
@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    before=st.lists(st.sampled_from(["1,a", "", '"2\n\n",b', '3,"c\rd""\r\n"', "é,"]), max_size=9),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    broken=st.sampled_from(["1,2,3", "1", '"1,2"', "1,\0", '1,"2']),
)
def test_the_line_that_is_broken(tmp_path, before, end, broken):
    text = end.join(["id,text", *before, broken])
    line = len(io.StringIO(text, newline="").readlines())
    with pytest.raises(TableError, match=f", line {line}: "):
        tables.read(write(tmp_path / "a.csv", text + end))


def test_tabs_and_quotes(tmp_path, small, monkeypatch):
    def rows(text):
        return tables.read(write(tmp_path / "a.tsv", text)).rows()

    assert rows('a\tb\n"x\t1"\n') == [('"x', '1"')]
    assert rows('a\tb\n"x\t1"\t2\n') == [("x\t1", "2")]
    assert rows('a\tb\n5" disk\t"b"\n"c\nd"\t"""e"""\n') == [('5" disk', "b"), ("c\nd", '"e"')]
    assert rows('a\tb\n"x" said\t1\n"y"\t2\n') == [('"x" said', "1"), ('"y"', "2")]
    assert rows('a\tb\n"x\t1\ny\t2\n') == [('"x', "1"), ("y", "2")]
    # The first quote comes late, and its other end after the end of the piece.
    late = "a\tb\n" + "x\ty\n" * 20 + '"' + "long\n" * 8 + '"\t1\n'
    assert rows(late)[-1] == ("long\n" * 8, "1")
    monkeypatch.setattr(delimited, "LONGEST_QUOTE", 10)
    with pytest.raises(TableError, match=r"a\.tsv, line 22: 1 cell where the header has 2"):
        rows(late)


def test_columns_of_json(tmp_path, small):
    lines = [
        {
            "i": 1,
            "f": 1,
            "b": True,
            "t": "x",
            "m": 1,
            "big": 2**64,
            "n": [1, {"a": "é"}],
            "o": None,
        },
        {"i": None, "f": 2.5, "b": None, "t": "", "m": "2", "big": 1, "n": None, "later": 3},
        {"i": -(2**63), "m": True, "n": "text", "b": False},
    ]
    text = "\n\n".join(map(json.dumps, lines)) + "\n"
    expected = pl.DataFrame(
        {
            "i": [1, None, -(2**63)],
            "f": [1.0, 2.5, None],
            "b": [True, None, False],
            "t": ["x", "", None],
            "m": ["1", "2", "true"],
            "big": [str(2**64), "1", None],
            "n": ['[1, {"a": "é"}]', None, "text"],
            "o": pl.Series([None] * 3, dtype=pl.String),
            "later": [None, 3, None],
        }
    )
    path = write(tmp_path / "a.jsonl", text)
    assert tables.read(path).equals(expected)
    assert tables.read(path).schema == expected.schema
    assert pl.concat(tables.batches(path, rows=1)).equals(expected)
    assert tables.read(write(tmp_path / "b", '{"a": NaN}\r\n{"a": 1}')).rows() == [(None,), (1,)]


def test_types_are_kept_and_written_as_text(tmp_path):
    frame = pl.DataFrame(
        {
            "n": [1, None],
            "x": [0.1, float("nan")],
            "d": pl.Series(["2024-01-02", None]).str.to_date(),
            "l": [[1, 2], None],
            "s": [{"a": "é"}, {"a": None}],
            "c": pl.Series(["=a", "b"], dtype=pl.Categorical),
            "t": pl.Series([1500, None]).cast(pl.Duration("ms")),
        }
    )
    for name in ("a.parquet", "a.arrow", "a.feather", "a.ipc"):
        tables.write([frame[:1], frame[1:]], tmp_path / name)
        assert tables.read(tmp_path / name).equals(frame)
        assert tables.read(tmp_path / name).schema == frame.schema
        assert pl.concat(tables.batches(tmp_path / name, rows=1)).equals(frame)
    tables.write(frame, tmp_path / "a.csv")
    assert tables.read(tmp_path / "a.csv").rows() == [
        ("1", "0.1", "2024-01-02", "[1, 2]", '{"a": "é"}', "=a", "PT1.5S"),
        ("", "NaN", "", "", '{"a": null}', "b", ""),
    ]
    tables.write(frame, tmp_path / "a.jsonl", spreadsheet=True)
    assert json.loads((tmp_path / "a.jsonl").read_text().splitlines()[0])["c"] == "'=a"
    tables.write(frame.select("n"), tmp_path / "one.csv")
    assert tables.read(tmp_path / "one.csv").rows() == [("1",), ("",)]


def test_spreadsheets(tmp_path):
    cells = [
        "=1",
        "+1+1",
        "-x",
        "@a",
        "\tx",
        "\rx",
        "-3.5",
        "+7",
        "-.5e-3",
        "-",
        "-3\n=x",
        "",
        "a=b",
    ]
    frame = pl.DataFrame({"=n": cells, "k": [-1] * len(cells)})
    tables.write(frame, tmp_path / "a.csv", spreadsheet=True)
    found = tables.read(tmp_path / "a.csv")
    assert found.columns == ["'=n", "k"]
    safe = {"-3.5", "+7", "-.5e-3", "", "a=b"}
    assert found["'=n"].to_list() == [cell if cell in safe else f"'{cell}" for cell in cells]
    assert set(found["k"]) == {"-1"}
    tables.write(frame, tmp_path / "a.csv")
    assert tables.read(tmp_path / "a.csv")["=n"].to_list() == cells


BROKEN = {
    "ragged": (
        "a.csv",
        "id,text\n1,a\n\n2,b,c,d\n",
        "line 4: 4 cells where the header has 2. Quote",
    ),
    "short": ("a.csv", 'id,text\n"1\n",a\n2\n', "line 4: 1 cell where the header has 2"),
    "long row": ("a.csv", 'id,text\n1,"a\n2,b"\n3,"c\nd",e\n', "line 4 to 5: 3 cells .* quotes"),
    "tab": ("a.tsv", "id\ttext\n1\ta\tb\n", "line 2: 3 cells .* that hold a tab"),
    "utf-8": ("a.csv", b"id,text\n1,a\r2,caf\xe9\n", "line 3: the byte 0xE9 .*--encoding latin-1"),
    "utf-8 in json": ("a.jsonl", b'{"a": 1}\n{"a": "\xff"}', "line 2: the byte 0xFF"),
    "cut utf-8": ("a.csv", b"id\n\xc3", "line 2: the byte 0xC3"),
    "utf-16": ("a.csv", "id,text\n1,a".encode("utf-16"), "mark of UTF-16: give encoding='utf-16'"),
    "utf-32": ("a.csv", "id,text\n1,a".encode("utf-32"), "mark of UTF-32: give"),
    "utf-16, no mark": ("a.csv", "id,text\n1,a".encode("utf-16-le"), "line 1: a NUL byte.*UTF-16"),
    "NUL": ("a.csv", "id,text\n1,a\n2,\0\n", "line 3: a NUL byte"),
    "open quote": (
        "a.csv",
        'id,t\n1,"a\nb"\n2,"c\n3,d\n',
        "line 4: a quote opens here and is never",
    ),
    "second open quote": ("a.csv", 'id,t\n"1\n","c\n3,d\n', "line 3: a quote opens here"),
    "open header": ("a.csv", '"id,t\n1,2', "line 1: a quote opens"),
    "wrong delimiter": ("a.tsv", "id,text\n1,a\n", r"single column if tab .* comma gives 2.*--del"),
    "duplicate": ("a.csv", "id,text,id\n1,a,2\n", "columns 1 and 3 are both named 'id'"),
    "no name": ("a.csv", ",text\n1,a\n", "column 1 of 2 has no name.*index=False"),
    "no name in json": ("a.jsonl", '{"": 1}', "column 1 of 1 has no name"),
    "empty": ("a.csv", "", "a.csv is empty"),
    "blank": ("a.csv", "\n\r\n\n", "a.csv is empty"),
    "header only": ("a.csv", "id,text\n", "a.csv has no rows"),
    "quoted header only": ("a.csv", '"id",text', "a.csv has no rows"),
    "empty json": ("a.jsonl", "\n", "a.jsonl is empty"),
    "no keys": ("a.jsonl", "{}\n{}", "a.jsonl is empty"),
    "cut gzip": ("a.csv.gz", gzip.compress(b"id,text\n1,a\n" * 99)[:-9], "gzip file that is cut"),
    "gzip head": ("a.csv.gz", b"\x1f\x8b", "gzip file that is cut short or damaged"),
    "bad gzip": ("a.csv", gzip.compress(b"id,text\n1,a\n")[:12] + b"xxxxxxxx", "gzip file that is"),
    "bad sum": ("a.csv", gzip.compress(b"id\n1\n")[:-8] + b"xxxxxxxx", "gzip file that is"),
    "parquet": ("a.parquet", b"PAR1xxxxPAR1", "a.parquet is damaged or not a file of Parquet"),
    "parquet by content": ("a", b"PAR1", "a is damaged or not a file of Parquet"),
    "arrow": ("a.arrow", b"ARROW1\0\0", "a.arrow is damaged or not a file of Arrow"),
    "empty arrow": ("a.arrow", b"", "a.arrow is damaged or not a file of Arrow"),
    "zipped arrow": ("a.arrow", gzip.compress(b"ARROW1"), "a.arrow is damaged"),
    "no json": ("a.jsonl", '{"a": 1}\n{"a" 2}\n', "line 2: Expecting ':' delimiter at character 6"),
    "array": ("a.json", '[{"a": 1}]', "line 1: list instead of an object.*jq"),
    "number": ("a.jsonl", '{"a": 1}\n3', "line 2: int instead of an object"),
    "duplicate key": ("a.jsonl", '{"a": 1, "b": 2, "a": 3}', "line 1: the key 'a' twice"),
    "infinity": ("a.jsonl", '{"a": -Infinity}', "line 1: -Infinity, which is not"),
    "half a character": ("a.jsonl", '{"a": "\\ud83d"}', "line 1: an escape such as"),
    "deep": ("a.jsonl", '{"a": ' + "[" * 100_000, "line 1: values nested too deep"),
    "digits": ("a.jsonl", '{"a": ' + "1" * 5000 + "}", "line 1: Exceeds the limit"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_files(tmp_path, case):
    name, content, message = BROKEN[case]
    path = write(tmp_path / name, content)
    usual = csv.field_size_limit()
    for reading in (lambda: tables.read(path), lambda: list(tables.batches(path, rows=1))):
        with pytest.raises(TableError, match=message) as caught:
            reading()
        assert "\n" not in str(caught.value)
        assert str(caught.value).startswith(str(path))
    assert csv.field_size_limit() == usual


NESTED = pl.DataFrame(
    {
        "text": ["a", "é" * 30, None, ""] * 3,
        "long": ["é" * 1000] * 12,  # which is in the header of a page, too
        "category": pl.Series(["p", None, "q", "p"] * 3, dtype=pl.Categorical),
        "enum": pl.Series(["p", None, "q", "p"] * 3, dtype=pl.Enum(["p", "q"])),
        "null": [None] * 12,
        "list": [["a"], [], None, ["b" * 20, None]] * 3,
        "array": pl.Series([[1, 2]] * 12, dtype=pl.Array(pl.Int8, 2)),
        "struct": [{"x": 1.5, "y": [True]}, {"x": None, "y": []}, None, {"x": 2.0, "y": None}] * 3,
        "binary": [b"x" * 20, None, b"", b"y"] * 3,
    }
)


def arrow_bytes(frame, **options):
    frame.write_ipc(file := io.BytesIO(), **options)
    return file.getvalue()


def parquet_bytes(frame, **options):
    frame.write_parquet(file := io.BytesIO(), **options)
    return file.getvalue()


def pyarrow_bytes(table, rows=None, **options):
    file = pa.BufferOutputStream()
    written = pa.ipc.IpcWriteOptions(unify_dictionaries=True, **options)
    with pa.ipc.new_file(file, table.schema, options=written) as writer:
        writer.write_table(table, rows)
    return file.getvalue().to_pybytes()


def pyarrow_parquet_bytes(table, **options):
    pa.parquet.write_table(table, file := io.BytesIO(), **options)
    return file.getvalue()


WRITERS = [
    *[
        (arrow_bytes, {"compression": compression, "compat_level": level, "record_batch_size": 5})
        for compression in ("uncompressed", "lz4", "zstd")
        for level in (pl.CompatLevel.newest(), pl.CompatLevel.oldest())
    ],
    *[
        (parquet_bytes, {"compression": compression, "row_group_size": 5})
        for compression in ("uncompressed", "snappy", "gzip", "brotli", "lz4", "zstd")
    ],
    (pyarrow_bytes, {"rows": 5}),
    (pyarrow_bytes, {"compression": "lz4"}),
    (pyarrow_bytes, {"compression": "zstd"}),
    (pyarrow_bytes, {"use_legacy_format": True}),
    (pyarrow_bytes, {"metadata_version": pa.ipc.MetadataVersion.V4}),
    (pyarrow_parquet_bytes, {"row_group_size": 5}),
    (pyarrow_parquet_bytes, {"data_page_size": 1, "write_page_index": True}),
    (pyarrow_parquet_bytes, {"data_page_version": "2.0", "compression": "zstd"}),
    (pyarrow_parquet_bytes, {"use_dictionary": False, "write_page_checksum": True}),
]


@pytest.mark.parametrize(("written", "options"), WRITERS)
def test_columnar_files_of_all_writers(tmp_path, written, options):
    frame, path = NESTED, tmp_path / ("a.parquet" if "parquet" in written.__name__ else "a.arrow")
    if written is pyarrow_parquet_bytes:
        frame = frame.drop("category", "enum")  # which become text
    for part in (frame, frame[3:8], frame[:1]):
        table = part.to_arrow() if "pyarrow" in written.__name__ else part
        assert tables.read(write(path, written(table, **options))).equals(part)
        path.unlink()
    with pytest.raises(TableError, match="has no rows"):
        tables.read(write(path, written(table[:0], **options)))


NUMBERS = pl.DataFrame({"a": [0.0] * 1001})  # 8008 bytes of 8064, and what compresses well


def claiming(content, old, new, kind="<q"):
    """Change a number in a file, where it is first."""
    assert struct.pack(kind, old) in content
    return content.replace(struct.pack(kind, old), struct.pack(kind, new), 1)


def many_times_nested():
    """Return a file of 2^30 columns: the two in each of them are one and the same."""
    kind = pa.int8()
    for _ in range(30):
        kind = pa.struct({"a": kind, "b": pa.int8()})
    content = pyarrow_bytes(pa.schema({"a": kind}).empty_table())
    start = len(content) - 10 - struct.unpack("<i", content[-10:-6])[0]
    footer = bytearray(content[start:-10])
    (field,) = arrowfile.Table(bytes(footer)).table(1).tables(1)
    while children := list(field.tables(5)):
        assert len(children) == 2
        place = field._place(5)
        first = place + struct.unpack_from("<I", footer, place)[0] + 4
        struct.pack_into("<I", footer, first + 4, children[0].at - first - 4)
        field = children[0]
    return content[:start] + bytes(footer) + content[-10:]


def wide_arrays():
    """Return a file of missing arrays, a million values each by the schema of Arrow in it."""
    content = parquet_bytes(pl.DataFrame({"a": [None] * 1000}, schema={"a": pl.Array(pl.Int8, 77)}))
    (text,) = re.findall(rb"[A-Za-z0-9+/]{100,}=*", content)
    schema = claiming(base64.b64decode(text), 77, 1 << 20, "<i")
    return content.replace(text, base64.b64encode(schema))


def deep(depth):
    kind = pl.Int8
    for _ in range(depth):
        kind = pl.List(kind)
    return pl.DataFrame({"a": [None]}, schema={"a": kind})


ARROW, PARQUET = arrow_bytes(NUMBERS, compression="uncompressed"), parquet_bytes(NUMBERS)
# What polars would end the process over, most of it.
CLAIMS = {
    "stream.arrow": (b"\xff\xff\xff\xff" + bytes(20), "it is an Arrow stream"),
    "old.feather": (b"FEA1" + bytes(20), "Feather of version 1"),
    "cut.arrow": (ARROW[:-1], "does not end with ARROW1, so it is cut short"),
    "footer.arrow": (ARROW[:-10] + struct.pack("<i", 1 << 30) + b"ARROW1", "its footer lies outs"),
    "negative.arrow": (ARROW[:-10] + struct.pack("<i", -1) + b"ARROW1", "its footer lies outside"),
    "buffer.arrow": (claiming(ARROW, 8008, 1 << 60), "a buffer lies outside of its batch"),
    "negative buffer.arrow": (claiming(ARROW, 8008, -8), "a buffer lies outside of its batch"),
    "body.arrow": (claiming(ARROW[::-1], 8064, 1 << 60, ">q")[::-1], "batches do not fit in"),
    "values.arrow": (claiming(ARROW, 1001, 1 << 60), "it claims 144,115,188,07"),
    "nodes.arrow": (
        ARROW.replace(struct.pack("<q", 1001), struct.pack("<q", 1 << 60)),
        "it claims 288,230,376,15",
    ),
    **{
        f"{compression}.arrow": (
            claiming(arrow_bytes(NUMBERS, compression=compression), 8008, 1 << 60),
            "a buffer claims more than it can become",
        )
        for compression in ("lz4", "zstd")
    },
    "deep.arrow": (arrow_bytes(deep(65)), "nested more than 64 deep"),
    "nested.arrow": (many_times_nested(), "more columns than room"),
    "no columns.arrow": (pyarrow_bytes(pa.table({"a": [1]}).select([])), "has no (rows|columns)"),
    "cut.parquet": (PARQUET[:-1], "does not end with PAR1, so it is cut short"),
    "footer.parquet": (PARQUET[:-8] + struct.pack("<i", 1 << 30) + b"PAR1", "its footer lies outs"),
    # The number of values in the header of a page: 1001 and -1001, as Thrift writes them.
    "page.parquet": (PARQUET.replace(b"\x15\xd2\x0f", b"\x15\xd1\x0f", 1), "missing or negative"),
    # A thousand missing values of 20,000 bytes each, and of a million.
    "fixed.parquet": (
        pyarrow_parquet_bytes(pa.table({"a": pa.nulls(1000, pa.binary(20_000))})).replace(
            b"\x15\xc0\xb8\x02", b"\x15\xfe\xff\x7f"
        ),
        "it claims 1,0",
    ),
    "array.parquet": (wide_arrays(), "it claims 1,048,576,000"),
    "deep.parquet": (parquet_bytes(deep(65)), "nested more than 64 deep"),
}


@pytest.mark.parametrize("name", CLAIMS)
def test_columnar_files_that_claim_too_much(tmp_path, name):
    content, message = CLAIMS[name]
    path = write(tmp_path / name, content)
    for reading in (tables.read, lambda path: list(tables.batches(path))):
        with pytest.raises(TableError, match=message) as caught:
            reading(path)
        assert str(caught.value).startswith(str(path))


def test_columnar_files_larger_than_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(columnar, "memory", lambda: 5000)
    for name, content in {
        "a.arrow": arrow_bytes(NUMBERS, compression="zstd", record_batch_size=500),
        "a.parquet": parquet_bytes(NUMBERS, row_group_size=500),
    }.items():
        path = write(tmp_path / name, content)
        with pytest.raises(TableError, match=r"it claims [5-9],\d\d\d bytes of memory"):
            tables.read(path)
        assert pl.concat(tables.batches(path)).equals(NUMBERS)
    with pytest.raises(TableError, match=r"it claims [5-9],\d\d\d bytes of memory"):
        list(tables.batches(write(tmp_path / "b.parquet", PARQUET)))


def test_only_descriptions_are_checked():
    """What is read of a file does not grow with its columns."""

    class Counted(io.BytesIO):
        count = 0

        def read(self, size=-1):
            found = super().read(size)
            self.count += len(found)
            return found

    frame = pl.DataFrame({"a": range(100_000), "b": ["text" * 5] * 100_000})
    for claims, content in (
        (arrowfile.arrow_sizes, arrow_bytes(frame, compression="uncompressed")),
        (arrowfile.arrow_sizes, arrow_bytes(frame, compression="zstd")),
        (parquet_sizes, parquet_bytes(frame)),
    ):
        file = Counted(content)
        assert all(claim >= 0 for claim in claims(file))
        assert file.count < 20_000


def test_damaged_columnar_files(tmp_path):
    """Cut short anywhere or with any byte changed, a file is read or refused."""
    frame = NESTED[:4].select("text", "category", "list")
    write(tmp_path / "a.arrow", arrow_bytes(frame, compression="zstd"))
    write(tmp_path / "a.parquet", parquet_bytes(frame))
    code = f"""
import pathlib, random
draw = random.Random(0)
for path in sorted(pathlib.Path({str(tmp_path)!r}).iterdir()):
    content = path.read_bytes()
    damaged = [content[:end] for end in range(len(content))]
    for _ in range(300):
        at = draw.randrange(len(content))
        damaged.append(content[:at] + bytes([draw.randrange(256)]) + content[at + 1 :])
    read = refused = 0
    for new in damaged:
        path.unlink()  # a thread of polars may still read what it mapped before
        path.write_bytes(new)
        try:
            tables.read(path)
            read += 1
        except tables.TableError as error:
            assert str(error).startswith(str(path))
            refused += 1
    print(read, refused)
"""
    for line in piped(b"", code).splitlines():
        read, refused = map(int, line.split())
        assert read > 100
        assert refused > 1000


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(TableError, match=r"There is no file .*no\.csv: check"):
        tables.read(tmp_path / "no.csv")
    with pytest.raises(TableError, match="is a directory: name a file"):
        tables.read(tmp_path)
    locked = write(tmp_path / "a.csv", "id\n1\n")
    locked.chmod(0)
    if not os.access(locked, os.R_OK):  # root may read everything
        with pytest.raises(TableError, match="may not be read"):
            tables.read(locked)


def test_settings_that_are_refused(tmp_path):
    path = write(tmp_path / "a.csv", "id\n1\n")
    for setting, message in [
        ({"delimiter": "ab"}, "'ab' cannot be a delimiter"),
        ({"delimiter": '"'}, "cannot be a delimiter"),
        ({"encoding": "utf-9"}, "'utf-9' is not an encoding"),
        ({"encoding": "base64"}, "'base64' is not an encoding"),
        ({"encoding": "utf-16"}, "this is not utf-16"),
        ({"format": "xlsx"}, "no format 'xlsx': give one of arrow, csv, jsonl, parquet, tsv"),
    ]:
        with pytest.raises(TableError, match=message):
            tables.read(path, **setting)
    with pytest.raises(ValueError, match="rows is 0"):
        next(tables.batches(path, rows=0))
    frame = pl.DataFrame({"a": [1], "b": [b"\xff"]})
    for name in ("a.xlsx", "a", "a.parquet.gz"):
        with pytest.raises(TableError, match=f"{name} does not say a format"):
            tables.write(frame, tmp_path / name)
    with pytest.raises(TableError, match=r"b\.csv cannot be written: leave out or change"):
        tables.write(frame, tmp_path / "b.csv")
    with pytest.raises(TableError, match="no batch"):
        tables.write([], tmp_path / "b.csv")
    with pytest.raises(TableError, match="columns a where the first one has a, b"):
        tables.write([frame, frame.select("a")], tmp_path / "b.parquet")
    assert sorted(os.listdir(tmp_path)) == ["a.csv"]


def test_other_encodings(tmp_path):
    for encoding in ("latin-1", "utf-16", "utf-16-le", "utf-8-sig", "cp1252", "shift_jis"):
        text = "id,text\n1,日本\n" if encoding == "shift_jis" else "id,text\n1,é\n"
        path = write(tmp_path / "a.csv", text.encode(encoding))
        assert tables.read(path, encoding=encoding).rows() == [tuple(text[8:-1].split(","))]


def test_names_of_columns():
    frame = pl.DataFrame({f"c{i}": [i] for i in range(30)})
    tables.columns(frame, ["c1", "c29"])
    with pytest.raises(
        TableError, match=r"no column 'zzz'\. There are c0, c1.* c19 and 10 more\.$"
    ):
        tables.columns(frame, ["c1", "zzz"])


def test_long_cells(tmp_path, monkeypatch):
    usual = csv.field_size_limit()
    long = "a b\n" * 100_000
    path = write(tmp_path / "a.csv", f'id,text\n1,"{long}"\n2,b\n')
    reading = tables.batches(path, rows=1)
    assert next(reading).rows() == [("1", long)]
    assert csv.field_size_limit() == usual
    assert next(reading).rows() == [("2", "b")]
    monkeypatch.setattr(delimited, "LONGEST_LINE", 1000)
    with pytest.raises(TableError, match="line 2: a cell of more than 1,000 characters"):
        tables.read(path, delimiter=",")
    assert csv.field_size_limit() == usual
    monkeypatch.setattr(textfiles, "LONGEST_LINE", 1000)
    monkeypatch.setattr(textfiles, "PIECE", 10)
    with pytest.raises(TableError, match="line 3: more than 1,000 characters"):
        tables.read(write(path, "id\n1\n" + "a" * 2000))


def test_failure_leaves_the_old_file(tmp_path):
    def batches():
        yield pl.DataFrame({"a": ["1"]})
        raise RuntimeError("in the middle")

    for name in FILES:
        path = write(tmp_path / name, b"old")
        with pytest.raises(RuntimeError, match="in the middle"):
            tables.write(batches(), path)
        assert path.read_bytes() == b"old"
    assert sorted(os.listdir(tmp_path)) == sorted(FILES)


@pytest.mark.parametrize("size", [1, 1 << 16])
@pytest.mark.parametrize("name", FILES)
def test_standard_input_and_output(tmp_path, monkeypatch, capsysbinary, name, size):
    """The format is seen from the first bytes, even if they come through a pipe one by one."""
    frame = pl.DataFrame({"id": ["1", "2", "3"], "text": ["a", "é,\n", ""]})
    tables.write(frame, tmp_path / name)
    content = (tmp_path / name).read_bytes()
    out, into = os.pipe()

    def feed():
        with open(into, "wb", buffering=0) as pipe:
            for start in range(0, len(content), size):
                pipe.write(content[start : start + size])

    with open(out) as pipe, ThreadPoolExecutor() as threads:
        monkeypatch.setattr(sys, "stdin", pipe)
        threads.submit(feed)
        form = {".parquet": "parquet", ".arrow": "arrow", ".tsv": "tsv"}.get(Path(name).suffix)
        assert tables.write(tables.batches("-", rows=2), "-", format=form) == 3
        assert not pipe.buffer.closed
    found = write(tmp_path / "found", capsysbinary.readouterr().out)
    assert tables.read(found).equals(frame)


def test_threads(tmp_path):
    """The limit that csv has for all threads is raised as long as one of them reads."""
    usual, long = csv.field_size_limit(), "a\n" * 100_000
    path = write(tmp_path / "a.csv", "id,text\n" + f'1,"{long}"\n' * 20)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(tables.read, [path] * 8))
    assert all(frame.equals(found[0]) for frame in found)
    assert csv.field_size_limit() == usual


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="/proc tells the peak of memory")
def test_bounded_memory(tmp_path):
    """60 MB of text in a pipe or file are copied in far less memory than they need whole."""
    frame = pl.DataFrame({"id": range(200), "text": [f"word {i}, " * 150 for i in range(200)]})
    quoted = frame.with_columns(pl.col("text") + '"')
    tables.write((frame for _ in range(200)), tmp_path / "a.parquet")
    tables.write((frame for _ in range(200)), tmp_path / "a.jsonl")
    tables.write((quoted for _ in range(200)), tmp_path / "a.csv")
    code = f"""
import os
def peak():
    return next(int(line.split()[1]) for line in open("/proc/self/status") if "VmHWM" in line)
os.chdir({str(tmp_path)!r})
tables.write(tables.read("-"), "small.parquet")
tables.write(tables.read("small.parquet"), "small.jsonl")
start = peak()
for name in ("a.parquet", "a.jsonl", "a.csv"):
    assert os.path.getsize(name) > 50_000_000 or name == "a.parquet"
    rows = tables.write(tables.batches(name, rows=2_000), "copy-" + name)
    print(rows, (peak() - start) // 1024)
"""
    found = [tuple(map(int, line.split())) for line in piped(b"a,b\n1,2\n", code).splitlines()]
    assert [rows for rows, _ in found] == [40_000] * 3
    assert max(growth for _, growth in found) < 150


def test_without_polars(tmp_path, monkeypatch):
    frame, path = pl.DataFrame({"id": ["1"]}), write(tmp_path / "a.csv", "id\n1\n")
    monkeypatch.setitem(sys.modules, "polars", None)
    for call in (lambda: tables.read(path), lambda: tables.write(frame, path)):
        with pytest.raises(ImportError, match=r'pip install "tacit\[tables\]"$'):
            call()


COUNTS = {
    "20newsgroups/20news-bydate.jsonl.gz": 11_314 + 7_532,
    "webkb/webkb4-text.jsonl.gz": 4_199,
    "reuters/r8-all-terms.tsv.gz": 5_485 + 2_189,
    "sms_spam/sms_spam.tsv.gz": 5_574,
    "sentiment/cr.tsv.gz": 3_771,
    "alignment/en-es/corpus.tsv.gz": 5_401,
    "crowd/snow2008_rte.tsv": 8_000,
    "lca/cheating.csv": 319,
    "uci/house-votes-84.csv": 435,
    "uci/mushroom.csv": 8_124,
    "uci/car.csv": 1_728,
    "uci/zoo.csv": 101,
    "uci/breast-cancer-ljubljana.csv": 286,
    "uci/credit-approval.csv": 690,
}


@published
@pytest.mark.parametrize("name", COUNTS)
def test_real_files(tmp_path, name):
    path = data_file(name)
    frame = tables.read(path)
    assert frame.height == COUNTS[name]
    if ".tsv" in name:  # no quoting, says whoever made them
        with (gzip.open if name.endswith("gz") else open)(path, "rt", newline="\n") as file:
            lines = [tuple(line.rstrip("\n").split("\t")) for line in file]
        assert [tuple(frame.columns), *frame.rows()] == lines
    if name.startswith(("20news", "sms", "uci/zoo")):
        for target in ("a.csv", "a.tsv", "a.jsonl"):
            tables.write(frame, tmp_path / target)
            assert tables.read(tmp_path / target).equals(frame)
