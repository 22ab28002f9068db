"""Commands for classification: fill, fit, predict, evaluate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from tacit import TableClassifier, tables
from tacit.cli.common import (
    Labelled,
    check_outputs,
    check_resume,
    kinds,
    labelled,
    named,
    table_model,
    weight_of,
    with_labels,
    words,
    wrote,
)
from tacit.cli.options import (
    All,
    Checkpoint,
    Debug,
    Delimiter,
    Encoding,
    Input,
    Json,
    Kinds,
    Label,
    ModelPath,
    Output,
    Quiet,
    Resume,
    Save,
    Seed,
    Spreadsheet,
    Threads,
    Unlabeled,
    Words,
)
from tacit.cli.output import command, fitted, report
from tacit.data.labels import encode
from tacit.io.files import check_target
from tacit.report.facts import columns_facts, evaluation_facts, fit_facts
from tacit.selection.cross_validation import (
    N_FOLDS,
    Evaluation,
    cross_validate,
    cross_validate_supervised,
)

if TYPE_CHECKING:
    import polars as pl

__all__ = ["evaluate", "fill", "fit", "predict"]


def _classifier(
    path: str, data: Labelled, settings: tuple[Any, ...], show: bool
) -> tuple[TableClassifier, float, bool]:
    """Return a classifier fitted to a table, the seconds taken, and whether Ctrl-C ended it."""
    names = "kinds", "word_labels", "unlabeled_weight", "random_state", "n_jobs", "checkpoint"
    classifier = TableClassifier(**dict(zip((*names, "resume"), settings, strict=True)))
    check_resume(classifier.checkpoint, classifier.resume)
    with named(path):
        return classifier, *fitted(classifier, data.features, data.labels, show=show)


@command(
    "tacit fill mails.csv --label topic -o filled.csv",
    "zcat mails.csv.gz | tacit fill - --label topic > filled.csv",
    "tacit fill mails.csv --label topic --word hockey=sport --word violin=music -o filled.csv",
)
def fill(
    input: Input,  # noqa: A002 - what users see
    label: Label,
    output: Output = "-",
    model: Save = None,
    kind: Kinds = None,
    word: Words = None,
    unlabeled: Unlabeled = "auto",
    every: All = False,
    spreadsheet: Spreadsheet = False,
    delimiter: Delimiter = None,
    encoding: Encoding = "utf-8",
    checkpoint: Checkpoint = None,
    resume: Resume = False,
    seed: Seed = 0,
    threads: Threads = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> int:
    """Fill in the missing labels of a table.

    Every row is written back with two columns more: its label (the one it has, or the most
    probable) and the probability of it.
    """
    check_outputs(output, as_json, model)
    word_labels = words(word)
    data = labelled(input, label, delimiter, encoding, word_labels.values())
    settings = kinds(kind), word_labels, weight_of(unlabeled), seed, threads, checkpoint, resume
    classifier, seconds, stopped = _classifier(input, data, settings, show=not quiet)
    p, classes = classifier.label_distributions_, classifier.classes_.tolist()
    names = [data.names[c] for c in classes]
    filled = with_labels(data.table, label, names, p, every, "_filled")
    n = tables.write(filled, output, spreadsheet=spreadsheet)
    if model is not None:
        classifier.save(model)
    new = np.array([name is None for name in data.labels])
    unsure = int((p.max(axis=1)[new] < 0.9).sum())
    added = f", {int(new.sum()):,} labels filled in, {unsure:,} of them with a probability below .9"

    def facts() -> dict[str, Any]:
        return {
            **fit_facts(classifier, data.features, data.labels, seconds),
            "filled": int(new.sum()),
            "unsure": unsure,
            "wrote": [wrote(output, n, added), *([f"{model}: the model"] if model else [])],
        }

    report(facts, as_json, quiet)
    return 130 if stopped else 0


@command(
    "tacit fit mails.csv --label topic -o topics.model",
    "tacit predict topics.model new-mails.csv -o labelled.csv",
)
def fit(
    input: Input,  # noqa: A002
    label: Label,
    output: Annotated[str, typer.Option("--output", "-o", help="The model file to write.")],
    kind: Kinds = None,
    word: Words = None,
    unlabeled: Unlabeled = "auto",
    delimiter: Delimiter = None,
    encoding: Encoding = "utf-8",
    checkpoint: Checkpoint = None,
    resume: Resume = False,
    seed: Seed = 0,
    threads: Threads = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> int:
    """Fit a model to a table of which some rows are labelled, and write it to a file."""
    check_target(output)
    word_labels = words(word)
    data = labelled(input, label, delimiter, encoding, word_labels.values())
    settings = kinds(kind), word_labels, weight_of(unlabeled), seed, threads, checkpoint, resume
    classifier, seconds, stopped = _classifier(input, data, settings, show=not quiet)
    classifier.save(output)

    def facts() -> dict[str, Any]:
        found = fit_facts(classifier, data.features, data.labels, seconds)
        return found | {"wrote": [f"{output}: the model"]}

    report(facts, as_json, quiet)
    return 130 if stopped else 0


@command("tacit predict topics.model new-mails.csv -o labelled.csv")
def predict(
    model: ModelPath,
    input: Input,  # noqa: A002
    output: Output = "-",
    every: All = False,
    spreadsheet: Spreadsheet = False,
    delimiter: Delimiter = None,
    encoding: Encoding = "utf-8",
    threads: Threads = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Predict the labels of a table with a model. Tables may be larger than memory."""
    check_outputs(output, as_json)
    found = table_model(model).set_params(n_jobs=threads)
    name = getattr(found, "label_name_", None) or "label"
    name = name if isinstance(found, TableClassifier) else "cluster"
    ending = "_predicted" if isinstance(found, TableClassifier) else ""
    names, counts = found._names(), Counter[Any]()

    def blocks() -> Iterator[pl.DataFrame]:
        before = 0
        for batch in tables.batches(input, delimiter=delimiter, encoding=encoding):
            with named(input, before):
                p = found.predict_proba(batch)
            before += len(p)
            counts.update(names[k] for k in p.argmax(axis=1))
            yield with_labels(batch, name, names, p, every, ending)

    n = tables.write(blocks(), output, spreadsheet=spreadsheet)
    facts = {
        "model": model,
        "rows": n,
        "classes": {str(c): counts[c] for c in names},
        "wrote": [wrote(output, n)],
    }
    report(lambda: facts, as_json, quiet)


@command("tacit evaluate mails.csv --label topic")
def evaluate(
    input: Input,  # noqa: A002
    label: Label,
    folds: Annotated[
        int | None,
        typer.Option(
            min=2,
            help="Cross-validate whole fits in so many folds; by default the figures are those "
            "that fill reports, of the held-out labels that one fit learns from.",
        ),
    ] = None,
    kind: Kinds = None,
    delimiter: Delimiter = None,
    encoding: Encoding = "utf-8",
    seed: Seed = 0,
    threads: Threads = None,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Estimate the accuracy on new rows, by held-out labels.

    Two models are compared: one of the labelled rows alone (supervised), and one of all rows (em),
    which fill uses unless the other does better.
    """
    data = labelled(input, label, delimiter, encoding)
    model = TableClassifier(kinds=kinds(kind), random_state=seed, n_jobs=threads)
    table, labels = model.prepare(data.features), encode(data.labels)
    given = np.bincount(labels.codes[labels.codes >= 0]).tolist()
    facts: dict[str, Any] = {
        "rows": len(data.labels),
        "labelled": sum(given),
        "classes": dict(zip(labels.classes.tolist(), given, strict=True)),
        "columns": columns_facts(table.columns, data.features),
    }
    scores: dict[str, Evaluation | None] = {}
    if folds is None:
        told = getattr(model.fit(table, data.labels), "unlabeled_help_", None)
        scores = {} if told is None else {"supervised": told.supervised, "em": told.em}
    if None in (scores.get("supervised"), scores.get("em")):
        for name, validate in (("supervised", cross_validate_supervised), ("em", cross_validate)):
            scores[name] = validate(model, table, labels, n_folds=folds or N_FOLDS, seed=seed)
    best = ("", -1.0)
    for name, found in scores.items():
        if found is None:
            raise ValueError(
                f"{input}: every class has one label only: none can be held out. Label more."
            )
        facts[name] = evaluation_facts(found, labels.classes.tolist())
        best = (name, found.accuracy) if found.accuracy >= best[1] else best
    facts["each_class"] = best[0]
    report(lambda: facts, as_json, quiet)
