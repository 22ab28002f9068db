"""The demonstration: the docstrings of Python's own library, classified by area from few labels.

The area of a docstring, such as mail or time, is given by its module. A few are used as labels, the
others are held out to measure accuracy.
"""

from __future__ import annotations

import ast
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tacit import tables
from tacit.frames.classifier import TableClassifier
from tacit.text.vectorizer import CountVectorizer

__all__ = ["AREAS", "docstrings", "run"]

AREAS = {
    "files": "fileinput filecmp fnmatch glob gzip ntpath os pathlib posixpath shutil tarfile "
    "tempfile zipfile",
    "mail": "email imaplib mailbox mimetypes poplib smtplib",
    "network": "asyncio ftplib http ipaddress selectors socket socketserver ssl urllib wsgiref "
    "xmlrpc",
    "numbers": "_pydecimal colorsys fractions numbers random statistics",
    "processes": "concurrent multiprocessing queue signal subprocess threading",
    "programs": "ast codeop compileall dis importlib inspect pickletools pkgutil symtable tokenize",
    "tests": "bdb cProfile doctest pdb profile pstats timeit trace unittest",
    "text": "codecs configparser csv difflib gettext html json locale plistlib re string textwrap "
    "xml",
    "time": "_pydatetime _strptime calendar datetime sched zoneinfo",
    "windows": "idlelib tkinter turtle",
}
LEAST_WORDS = 5


def docstrings(area: str) -> Iterator[str]:
    """Yield the docstrings of an area that have at least `LEAST_WORDS` words.

    Examples
    --------
    >>> any("zone" in text for text in docstrings("time"))
    True
    """
    library = Path(sysconfig.get_path("stdlib"))
    for module in AREAS[area].split():
        alone = library / f"{module}.py"
        for path in [alone] if alone.exists() else sorted((library / module).rglob("*.py")):
            if "test" in path.stem or "test" in path.parent.name:
                continue
            for node in ast.walk(ast.parse(path.read_bytes())):
                kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
                text = ast.get_docstring(node) if isinstance(node, kinds) else None
                if text and len(text.split()) >= LEAST_WORDS:
                    yield text


def run(labels: int = 10, seed: int = 0, output: str | None = None) -> None:
    """Print the accuracy from a few labels, without the unlabelled texts and with them.

    Parameters
    ----------
    labels : int, default=10
        Number of labelled texts of each area.
    seed : int, default=0
        Seed of their choice.
    output : str, default=None
        Where to write the table with these labels.
    """
    pairs = sorted({(text, area) for area in AREAS for text in docstrings(area)})
    texts, areas = [text for text, _ in pairs], np.array([area for _, area in pairs])
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(areas))
    kept = np.concatenate([order[areas[order] == area][:labels] for area in np.unique(areas)])
    some: npt.NDArray[np.object_] = np.full(len(areas), None, dtype=object)
    some[kept] = areas[kept]
    held_out = np.ones(len(areas), bool)
    held_out[kept] = False
    if output is not None:
        import polars as pl

        tables.write(pl.DataFrame({"docstring": texts, "area": some.tolist()}), output)
    print(
        f"{len(kept)} labelled of {len(texts):,} docstrings of Python's own library, in "
        f"{len(set(areas))} areas."
    )
    vectorizer = CountVectorizer(stop_words="english")
    model = TableClassifier(kinds={"docstring": "text"}, vectorizer=vectorizer)
    table = model.prepare({"docstring": texts})
    print(f"{table.columns[0].width:,} different words.\n")
    for name, weight in (("labelled docstrings alone", 0.0), ("all docstrings, by EM", 1.0)):
        model.set_params(unlabeled_weight=weight).fit(table, some)
        accuracy = float((model.transduction_[held_out] == areas[held_out]).mean())
        print(f"accuracy on held-out labels, {name:<26} {100 * accuracy:.1f} %")
    print("\ntop words of each area:")
    for area in model.classes_.tolist():
        print(f"  {area:<10} {', '.join(f.value for f in model.top_features(area, 8))}")
    path, column = (output, "area") if output is not None else ("mails.csv", "topic")
    print(
        f"\nOn {'this table' if output else 'a table of your own'}, whose column {column} is empty "
        f"in most rows:\n  tacit fill {path} --label {column} -o filled.csv\n"
        f"  tacit evaluate {path} --label {column}"
    )
