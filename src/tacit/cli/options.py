"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = [
    "All",
    "Checkpoint",
    "Debug",
    "Delimiter",
    "Encoding",
    "Input",
    "Json",
    "Kinds",
    "Label",
    "ModelPath",
    "Output",
    "Quiet",
    "Resume",
    "Save",
    "Seed",
    "Spreadsheet",
    "Threads",
    "Unlabeled",
    "Words",
]

Input = Annotated[
    str,
    typer.Argument(
        help="A table: CSV, TSV, JSON lines, Parquet or Arrow, plain or gzipped; - is stdin."
    ),
]
ModelPath = Annotated[str, typer.Argument(help="A model file that fit or fill has written.")]
Label = Annotated[str, typer.Option("--label", "-l", help="The column that holds the labels.")]
Output = Annotated[
    str,
    typer.Option("--output", "-o", help="Where to write, by extension; - is stdout, as CSV."),
]
Save = Annotated[str | None, typer.Option("--model", help="Also write the model to this file.")]
Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--kind",
        help="COLUMN=KIND, the type of a column where the rules should not decide: text, category, "
        "number, yes/no, out. May be given several times.",
    ),
]
Words = Annotated[
    list[str] | None,
    typer.Option(
        "--word",
        help="WORD=CLASS: a word that is evidence for a class, beside labels or instead of them. "
        "May be given several times.",
    ),
]
Unlabeled = Annotated[
    str,
    typer.Option(
        "--unlabeled",
        help="Weight of unlabelled rows, from 0 (left out); auto: chosen by held-out labels.",
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(help="The delimiter of delimited text; detected if not given."),
]
Encoding = Annotated[str, typer.Option(help="The encoding of text files.")]
All = Annotated[bool, typer.Option("--all", help="Add the probability of every class.")]
Spreadsheet = Annotated[
    bool,
    typer.Option("--spreadsheet", help="Disarm text that a spreadsheet would run as a formula."),
]
Checkpoint = Annotated[
    str | None,
    typer.Option(
        help="Save the state of the fit to this file every minute, so that --resume can continue "
        "if it was killed. It is removed in the end."
    ),
]
Resume = Annotated[bool, typer.Option("--resume", help="Resume from --checkpoint, if it exists.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the random numbers.")]
Threads = Annotated[
    int | None, typer.Option(min=1, help="Threads; one for each core if not given.")
]
Json = Annotated[bool, typer.Option("--json", help="Print the report as JSON, on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show where in the code an error arose.")]
