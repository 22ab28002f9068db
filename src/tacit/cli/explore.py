"""Commands without labels, and about models: cluster, explain, inspect, sample, demo."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from sklearn.base import clone

from tacit import TableClassifier, TableMixture, TextClassifier, load, tables
from tacit.cli.common import check_outputs, free, kinds, named, table_model, with_labels, wrote
from tacit.cli.options import (
    All,
    Checkpoint,
    Debug,
    Delimiter,
    Encoding,
    Input,
    Json,
    Kinds,
    ModelPath,
    Output,
    Quiet,
    Resume,
    Save,
    Seed,
    Spreadsheet,
    Threads,
)
from tacit.cli.output import UsageError, as_text, command, fitted, report
from tacit.frames.columns import columns_of, infer
from tacit.report.facts import (
    columns_facts,
    ensemble_facts,
    feature_facts,
    fit_facts,
    format_facts,
    text_facts,
)
from tacit.text.vectorizer import CountVectorizer

if TYPE_CHECKING:
    import polars as pl

__all__ = ["cluster", "demo", "explain", "inspect", "sample"]


@command(
    "tacit cluster survey.csv -k 3 -o clustered.csv",
    "tacit cluster survey.csv -k 2-8 -o clustered.csv",
)
def cluster(
    input: Input,  # noqa: A002
    k: Annotated[
        str, typer.Option("-k", help="Number of clusters: 5, or 2-8 for the best by BIC.")
    ],
    output: Output = "-",
    model: Save = None,
    kind: Kinds = None,
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
    """Find clusters in a table without labels."""
    check_outputs(output, as_json, model)
    if resume and checkpoint is None:
        raise UsageError("--resume needs --checkpoint FILE, the file to resume from.")
    first, dash, last = k.partition("-")
    try:
        sizes = range(int(first), int(last if dash else first) + 1)
    except ValueError:
        raise UsageError(f"-k {k}: expected a number such as 5, or a range such as 2-8.") from None
    if not len(sizes) or sizes[0] < 1:
        raise UsageError(f"-k {k}: expected numbers from 1 on, the smaller first.")
    table = tables.read(input, delimiter=delimiter, encoding=encoding)
    mixture = TableMixture(kinds=kinds(kind), random_state=seed, n_jobs=threads, resume=resume)
    with named(input):
        prepared = mixture.prepare(table)
    bic: dict[str, float] = {}
    best, stopped, seconds = None, False, 0.0
    for size in sizes:
        state = f"{checkpoint}.{size}" if checkpoint and len(sizes) > 1 else checkpoint
        own = clone(mixture).set_params(n_components=size, checkpoint=state)
        try:
            took, stopped = fitted(own, prepared, show=not quiet)
        except KeyboardInterrupt:
            if best is None:
                raise
            stopped = True
            break
        seconds += took
        bic[str(size)] = own.bic(prepared)
        if best is None or bic[str(size)] < bic[str(best.n_components)]:
            best = own
        if stopped:
            break
    assert best is not None
    p = best.label_distributions_
    n = tables.write(
        with_labels(table, "cluster", best._names(), p, every, ""), output, spreadsheet=spreadsheet
    )
    if model is not None:
        best.save(model)

    def facts() -> dict[str, Any]:
        written = [wrote(output, n), *([f"{model}: the model"] if model else [])]
        return fit_facts(best, table, None, seconds) | {
            "bic": bic if len(bic) > 1 else None,
            "wrote": written,
        }

    report(facts, as_json, quiet)
    return 130 if stopped else 0


@command(
    "tacit explain topics.model mails.csv --row 17",
    "tacit explain topics.model mails.csv --row 17 --label sport --against music",
)
def explain(
    model: ModelPath,
    input: Input,  # noqa: A002
    row: Annotated[int, typer.Option(min=1, help="Which row; the first is 1.")] = 1,
    label: Annotated[str | None, typer.Option(help="The class to ask about.")] = None,
    against: Annotated[str | None, typer.Option(help="The class to compare it with.")] = None,
    delimiter: Delimiter = None,
    encoding: Encoding = "utf-8",
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Explain the label of a row: the log-odds of each word and value, which add up exactly."""
    known, before = table_model(model), 0
    names = {str(name): name for name in known._names()}
    for batch in tables.batches(input, delimiter=delimiter, encoding=encoding):
        if before + batch.height >= row:
            found = known.explain(
                batch[row - 1 - before : row - before],
                names.get(label, label) if label is not None else None,
                names.get(against, against) if against is not None else None,
            )
            if as_json:
                facts = {**vars(found), "terms": [term._asdict() for term in found.terms]}
                print(as_text(facts))
            else:
                print(found)
            return
        before += batch.height
    raise ValueError(f"{input} has {before:,} rows: there is no row {row:,}.")


@command("tacit inspect topics.model", "tacit inspect mails.csv")
def inspect(
    path: Annotated[str, typer.Argument(help="A model file, or a table.")],
    delimiter: Delimiter = None,
    encoding: Encoding = "utf-8",
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Show what is in a model file, or the inferred types of the columns of a table."""
    if tables.is_table(path):
        table = tables.read(path, delimiter=delimiter, encoding=encoding)
        columns, _ = infer(columns_of(table), None, CountVectorizer())
        facts: dict[str, Any] = {"rows": len(table), "columns": columns_facts(columns, table)}
    else:
        found = load(path)
        facts = {"model": type(found).__name__, "rounds": getattr(found, "n_iter_", None)}
        if facts["rounds"] is not None:
            facts |= {"converged": found.converged_, "objective": found.objective_}
        if isinstance(found, TableClassifier | TextClassifier):
            prior = found._log_prior
            names = map(str, found.classes_.tolist())
            facts["class_priors"] = dict(zip(names, np.exp(prior).tolist(), strict=True))
        elif isinstance(found, TableMixture):
            facts["weights"] = {str(k): w for k, w in enumerate(found.weights_.tolist())}
        if isinstance(found, TableClassifier | TableMixture):
            texts = getattr(found, "texts_", None)
            facts["columns"] = columns_facts(found.columns_, texts=texts)
            facts |= ensemble_facts(found)
            facts["top_features"] = feature_facts(found)
        elif isinstance(found, TextClassifier):
            facts["columns"] = [{"name": "texts", "kind": "text", **text_facts(found)}]
            facts["top_features"] = feature_facts(found)
    if as_json:
        print(as_text(facts))
    else:
        print("\n".join(format_facts(facts)))


@command("tacit sample topics.model -n 100 -o made-up.csv")
def sample(
    model: ModelPath,
    rows: Annotated[int, typer.Option("-n", min=1, help="How many rows.")] = 10,
    output: Output = "-",
    seed: Seed = 0,
    debug: Debug = False,
) -> None:
    """Draw new rows from a model."""
    tables.check_output(output)
    found = table_model(model).set_params(random_state=np.random.RandomState(seed))
    name = getattr(found, "label_name_", None) or "cluster"
    tables.write(_drawn(found, name, rows), output)


def _drawn(model: TableClassifier | TableMixture, name: str, rows: int) -> Iterator[pl.DataFrame]:
    """Yield sampled rows, 100 at a time, as they are dense in memory while they are drawn."""
    import polars as pl

    for first in range(0, rows, 100):
        table, drawn = model.sample(min(100, rows - first))
        yield pl.DataFrame({**table, free(name, list(table)): np.asarray(drawn).tolist()})


@command("tacit demo", "tacit demo -o docstrings.csv")
def demo(
    labels: Annotated[int, typer.Option(min=1, help="Labels for each class.")] = 10,
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="Also write the table, to try other commands on."),
    ] = None,
    seed: Seed = 0,
    debug: Debug = False,
) -> None:
    """Classify the docstrings of Python's own library from few labels, with and without EM."""
    from tacit.cli.demo import run

    run(labels, seed, output)
