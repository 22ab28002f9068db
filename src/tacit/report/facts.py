"""What the command line tells of a fit: the same facts for a person and, as JSON, for a program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tacit.frames.columns import Column, columns_of
from tacit.selection.cross_validation import Evaluation, UnlabeledHelp

__all__ = [
    "beside_facts",
    "columns_facts",
    "describe",
    "evaluation_facts",
    "help_facts",
    "marks_facts",
    "tell",
    "text_facts",
]

# Classes, and features of each, that a person is told of.
MOST_CLASSES = 30
MARKS = 8
MOST_COLUMNS = 50
LONGEST = 40


def columns_facts(
    columns: Iterable[Column], table: Any = None, texts: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Return what each column is, how many of its cells are missing, and what texts are seen as."""
    cells = {} if table is None else columns_of(table)
    found = []
    for column in columns:
        facts: dict[str, Any] = {"name": column.name, "kind": column.kind}
        if column.note:
            facts["note"] = column.note
        if column.categories:
            facts["categories"] = list(column.categories)
        if column.vectorizer is not None:
            facts["words"] = len(column.vectorizer.vocabulary_)
        if column.edges:
            facts["bins"] = len(column.edges) - 1
        if texts and column.name in texts:
            facts |= text_facts(texts[column.name])
        if column.name in cells and column.kind != "out":
            facts["missing"] = sum(cell is None for cell in cells[column.name].values)
        found.append(facts)
    return found


def evaluation_facts(found: Evaluation, classes: Sequence[Any]) -> dict[str, Any]:
    """Return what cross-validation found."""
    least, most = _interval(found.accuracy, found.rows)
    scores = zip(classes, found.precision, found.recall, found.confusion.sum(axis=1), strict=True)
    return {
        "rows": found.rows,
        "accuracy": found.accuracy,
        "accuracy_interval": [least, most],
        "log_loss": found.log_loss,
        "calibration_error": found.calibration_error,
        "classes": {
            str(name): {"precision": _number(a), "recall": _number(b), "rows": int(n)}
            for name, a, b, n in scores
        },
        "confusion": found.confusion.tolist(),
    }


def _interval(p: float, n: int) -> tuple[float, float]:
    """Return Wilson's interval of a share, which holds the truth 19 times in 20."""
    z = 1.96
    middle, scale = (p + z * z / (2 * n)), 1 + z * z / n
    half = z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return float((middle - half) / scale), float(min(1.0, (middle + half) / scale))


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def help_facts(found: UnlabeledHelp | None, classes: Sequence[Any]) -> dict[str, Any] | None:
    """Return whether rows without a label helped."""
    if found is None:
        return None
    if found.supervised is None or found.em is None:
        return {"weight": found.weight}
    return {
        "weight": found.weight,
        "supervised": evaluation_facts(found.supervised, classes),
        "em": evaluation_facts(found.em, classes),
    }


def marks_facts(model: Any, n: int = MARKS) -> dict[str, Any]:
    """Return what marks each class of a table or of texts."""
    if hasattr(model, "_top_features"):
        names, marks = model._names(), model._top_features(n)
    else:
        names = model.classes_.tolist()
        marks = [model.top_features(name, n) for name in names]
    pairs = zip(names, marks, strict=True)
    return {str(name): [feature._asdict() for feature in own] for name, own in pairs}


def text_facts(text: Any) -> dict[str, Any]:
    """Return how many words a classifier of texts knows, its models, and what is said beside."""
    pairs = zip(text.members_, text.pool_.weights, strict=True)
    models = [
        {"view": member.view, "supervised": member.supervised, "weight": float(weight)}
        for member, weight in pairs
    ]
    words = len(text.vectorizer_.vocabulary_)
    return {"words": words, "models": models, **beside_facts(text)}


def beside_facts(model: Any) -> dict[str, Any]:
    """Return what has a say beside columns and words: how many groups, and corrected values."""
    groups, correction = (getattr(model, name, None) for name in ("groups_", "correction_"))
    return {
        "groups": None if groups is None else len(groups.class_ratios),
        "corrected": None if correction is None else len(correction.logs),
    }


def describe(
    model: Any, table: Any, labels: Sequence[Any] | None, seconds: float
) -> dict[str, Any]:
    """Return the facts of a fit to a table, with its labels if it had any."""
    classes = model._names()
    facts: dict[str, Any] = {"rows": len(model.label_distributions_)}
    if labels is not None:
        facts["labelled"] = sum(label is not None for label in labels)
        given = Counter(label for label in labels if label is not None)
        facts["classes"] = {str(name): given[name] for name in classes}
        facts["components"] = model.components_per_class_
        facts |= beside_facts(model)
    else:
        facts["shares"] = {str(k): float(w) for k, w in enumerate(model.weights_)}
    facts |= {
        "columns": columns_facts(model.columns_, table, getattr(model, "texts_", None)),
        "rounds": model.n_iter_,
        "converged": bool(model.converged_),
        "objective": float(model.objective_),
        "seconds": seconds,
    }
    if labels is not None:
        told = help_facts(getattr(model, "unlabeled_help_", None), classes)
        if told is None and facts["labelled"] < facts["rows"]:
            told = {"weight": float(model.unlabeled_weight != 0)}
        facts["unlabelled"] = told
    return facts | {"marks": marks_facts(model)}


# What follows puts facts into words.


def tell(facts: Mapping[str, Any]) -> list[str]:
    """Return the lines that tell a person of facts."""
    lines: list[str] = []
    for name, say in TELLERS.items():
        if facts.get(name) is not None:
            said = say(facts)
            lines += [f"{'' if i else name.replace('_', ' '):<12}{s}" for i, s in enumerate(said)]
    return lines


def _rows(facts: Mapping[str, Any]) -> list[str]:
    n = f"{facts['rows']:,}"
    return [n if "labelled" not in facts else f"{n}, of which {facts['labelled']:,} have a label"]


def _classes(facts: Mapping[str, Any]) -> list[str]:
    counts = [f"{_short(name)} {count:,}" for name, count in facts["classes"].items()]
    components = facts.get("components", 1)
    each = f"each a mixture of {components}, as columns hang together within a class"
    return [_listed(counts), *([each] if components > 1 else [])]


def _groups(facts: Mapping[str, Any]) -> list[str]:
    return [f"{facts['groups']} of rows that are alike, by the classes that they lean to"]


def _corrected(facts: Mapping[str, Any]) -> list[str]:
    return [f"what {facts['corrected']:,} values say of the classes, by labels that were hidden"]


def _listed(items: Sequence[str]) -> str:
    more = len(items) - MOST_CLASSES
    return ", ".join(items[:MOST_CLASSES]) + (f" and {more} more" if more > 0 else "")


def _shares(facts: Mapping[str, Any]) -> list[str]:
    return [_listed([f"{_short(name)} {share:.1%}" for name, share in facts["shares"].items()])]


def _short(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"


def _columns(facts: Mapping[str, Any]) -> list[str]:
    lines, width = [], max(len(_short(c["name"])) for c in facts["columns"])
    for column in facts["columns"][:MOST_COLUMNS]:
        kind = "left out" if column["kind"] == "out" else column["kind"]
        notes = [column["note"]] if "note" in column else []
        if "words" in column:
            seen = dict.fromkeys(model["view"] for model in column.get("models", []))
            notes.append(f"{column['words']:,} words")
            if seen:
                notes.append(f"seen as {' and as '.join(seen)}")
            if column.get("groups"):
                notes.append(f"{column['groups']} groups of texts that are alike")
            if column.get("corrected"):
                notes.append("corrected by labels that were hidden")
        elif "bins" in column:
            notes.append(f"in {column['bins']} bins")
        elif "categories" in column:
            shown = ", ".join(map(_short, column["categories"][:4]))
            more = len(column["categories"]) - 4
            notes.append(shown + (f" and {more:,} more" if more > 0 else ""))
        if column.get("missing"):
            notes.append(f"{column['missing']:,} missing")
        lines.append(f"{_short(column['name']):<{width}}  {kind:<9} {'; '.join(notes)}".rstrip())
    more = len(facts["columns"]) - MOST_COLUMNS
    return [*lines, f"and {more:,} more"] if more > 0 else lines


def _rounds(facts: Mapping[str, Any]) -> list[str]:
    end = "" if facts["converged"] else ", not converged"
    rounds = "1 round" if facts["rounds"] == 1 else f"{facts['rounds']} rounds"
    if all("models" in column for column in facts["columns"] if column["kind"] != "out"):
        rounds = "several models of few rounds"
    took = f" in {facts['seconds']:.1f} s" if "seconds" in facts else ""
    return [f"{rounds}{took}{end}"]


def _unlabelled(facts: Mapping[str, Any]) -> list[str]:
    found = facts["unlabelled"]
    if "em" not in found:
        done = "used" if found["weight"] else "left out"
        return [f"{done}; how far to trust the labels is not known: see tacit evaluate"]
    without, with_them = found["supervised"], found["em"]
    n, before, after = with_them["rows"], without["accuracy"], with_them["accuracy"]
    better = after > before or with_them["log_loss"] < without["log_loss"]
    done = f"do not {'clearly ' if better else ''}help, and are left out"
    if found["weight"]:
        clear = better and after >= before
        done = "help, and are used" if clear else "make no clear difference, and are used"
    chosen = with_them if found["weight"] else without
    least, most = chosen["accuracy_interval"]
    return [
        f"{done}: of {n:,} labels hidden in turn, {before:.1%} are found without them, {after:.1%} "
        "with them",
        f"so expect {least:.0%} to {most:.0%} of the new labels to be right; probabilities are off "
        f"by {chosen['calibration_error']:.2f} on average (log-loss {chosen['log_loss']:.2f})",
    ]


def _marks(facts: Mapping[str, Any]) -> list[str]:
    several = len({f["column"] for features in facts["marks"].values() for f in features}) > 1
    lines, width = [], max(len(_short(name)) for name in facts["marks"])
    for name, features in list(facts["marks"].items())[:MOST_CLASSES]:
        shown = [f"{f['column']} {f['value']}" if several else f["value"] for f in features]
        between = "; " if several else ", "
        lines.append(f"{_short(name):<{width}}  {between.join(map(_short, shown))}")
    return lines


def _evaluation(facts: Mapping[str, Any], name: str) -> list[str]:
    found = facts[name]
    least, most = found["accuracy_interval"]
    return [
        f"accuracy {found['accuracy']:.1%} ({least:.0%} to {most:.0%}), log-loss "
        f"{abs(found['log_loss']):.3f}, calibration error {found['calibration_error']:.3f} "
        f"({found['rows']:,} labels)"
    ]


def _each_class(facts: Mapping[str, Any]) -> list[str]:
    found = facts[facts["each_class"]]
    width = max(13, *(len(_short(name)) for name in found["classes"]))
    by = f"by {facts['each_class']}"
    lines = [f"{by:<{width}}  precision  recall  rows   given as"]
    names = list(found["classes"])
    for (name, own), counts in zip(found["classes"].items(), found["confusion"], strict=True):
        order = sorted(range(len(counts)), key=lambda k: -counts[k])
        given = ", ".join(f"{names[k]} {counts[k]}" for k in order[:4] if counts[k])
        scores = [f"{own[s]:.2f}" if own[s] is not None else "-" for s in ("precision", "recall")]
        lines.append(
            f"{_short(name):<{width}}  {scores[0]:>9}  {scores[1]:>6}  {own['rows']:>4}   {given}"
        )
    return lines


def _bic(facts: Mapping[str, Any]) -> list[str]:
    best = min(facts["bic"], key=facts["bic"].get)
    return [
        ", ".join(f"{k}: {v:.6g}{' (least)' if k == best else ''}" for k, v in facts["bic"].items())
    ]


def _wrote(facts: Mapping[str, Any]) -> list[str]:
    return [str(line) for line in facts["wrote"]]


TELLERS = {
    "model": lambda facts: [facts["model"]],
    "rows": _rows,
    "classes": _classes,
    "shares": _shares,
    "columns": _columns,
    "groups": _groups,
    "corrected": _corrected,
    "bic": _bic,
    "rounds": _rounds,
    "unlabelled": _unlabelled,
    "supervised": lambda facts: _evaluation(facts, "supervised"),
    "em": lambda facts: _evaluation(facts, "em"),
    "each_class": _each_class,
    "marks": _marks,
    "wrote": _wrote,
}
