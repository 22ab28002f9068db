"""The main job on texts that every Python has: what the docstrings of its library are about.

Each docstring belongs to an area, such as mail or time, by the module that it stands in. A few keep
that label; the others are found by the words.
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
    """Yield the docstrings of an area, those of some words at least.

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
    """Print what is found from a few labels, without the other texts and with them.

    Parameters
    ----------
    labels : int, default=10
        How many texts of each area keep their label.
    seed : int, default=0
        Which they are.
    output : str, default=None
        Where to write the table, with the labels that are kept.
    """
    pairs = sorted({(text, area) for area in AREAS for text in docstrings(area)})
    texts, areas = [text for text, _ in pairs], np.array([area for _, area in pairs])
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(areas))
    kept = np.concatenate([order[areas[order] == area][:labels] for area in np.unique(areas)])
    some: npt.NDArray[np.object_] = np.full(len(areas), None, dtype=object)
    some[kept] = areas[kept]
    hidden = np.ones(len(areas), bool)
    hidden[kept] = False
    if output is not None:
        import polars as pl

        tables.write(pl.DataFrame({"docstring": texts, "area": some.tolist()}), output)
    print(
        f"{len(texts):,} docstrings of Python's own library in {len(set(areas))} areas; "
        f"{len(kept)} keep their label."
    )
    vectorizer = CountVectorizer(stop_words="english")  # which tell nothing of an area
    model = TableClassifier(kinds={"docstring": "text"}, vectorizer=vectorizer)
    table = model.prepare({"docstring": texts})
    print(f"{table.columns[0].width:,} different words.\n")
    for name, weight in (("from the labelled ones alone", 0.0), ("with all of them, by EM", 1.0)):
        model.set_params(unlabeled_weight=weight).fit(table, some)
        found = float((model.transduction_[hidden] == areas[hidden]).mean())
        print(f"hidden labels found {name:<29} {found:.1%}")
    print("\nwhat marks each area:")
    for area in model.classes_.tolist():
        print(f"  {area:<10} {', '.join(f.value for f in model.top_features(area, 8))}")
    path, column = (output, "area") if output is not None else ("mails.csv", "topic")
    print(
        f"\nOn {'this table' if output else 'a table of your own'}, whose column {column} is empty "
        f"in most rows:\n  tacit fill {path} --label {column} -o filled.csv\n"
        f"  tacit evaluate {path} --label {column}"
    )
