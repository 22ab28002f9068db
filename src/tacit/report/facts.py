"""Reports of a fit: facts as plain data, for `--json`, and the lines of text made of them.

`*_facts` collect from fitted models, `format_facts` makes lines of the result. Printing is for
`tacit.cli`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tacit.frames.columns import Column, columns_of
from tacit.selection.cross_validation import Evaluation, UnlabeledHelp

__all__ = [
    "Facts",
    "columns_facts",
    "ensemble_facts",
    "evaluation_facts",
    "feature_facts",
    "fit_facts",
    "format_facts",
    "help_facts",
    "text_facts",
    "used_scores",
]

Facts = Mapping[str, Any]

# Limits of what is printed.
MOST_CLASSES = 30
TOP_FEATURES = 8
MOST_COLUMNS = 50
LONGEST = 40  # characters of a name
WIDTH = 14  # of the labels before lines


def columns_facts(
    columns: Iterable[Column], table: Any = None, texts: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Return type, categories, words and number of missing values of each column."""
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
    """Return the scores of cross-validation: overall, with an interval, and by class."""
    scores = zip(classes, found.precision, found.recall, found.confusion.sum(axis=1), strict=True)
    return {
        "rows": found.rows,
        "accuracy": found.accuracy,
        "accuracy_interval": list(found.interval),
        "log_loss": found.log_loss,
        "calibration_error": found.calibration_error,
        "classes": {
            str(name): {"precision": _number(a), "recall": _number(b), "rows": int(n)}
            for name, a, b, n in scores
        },
        "confusion": found.confusion.tolist(),
    }


def _number(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def help_facts(found: UnlabeledHelp | None, classes: Sequence[Any]) -> dict[str, Any] | None:
    """Return the weight of unlabelled rows, and held-out scores without and with them."""
    if found is None:
        return None
    if found.supervised is None or found.em is None:
        return {"weight": found.weight}
    return {
        "weight": found.weight,
        "supervised": evaluation_facts(found.supervised, classes),
        "em": evaluation_facts(found.em, classes),
    }


def used_scores(unlabelled: Facts) -> Facts | None:
    """Return the held-out scores of the fitted model, those of `help_facts`; None if unknown."""
    return unlabelled.get("em" if unlabelled["weight"] else "supervised")


def feature_facts(model: Any, n: int = TOP_FEATURES) -> dict[str, Any]:
    """Return the most characteristic features of each class."""
    if hasattr(model, "_top_features"):
        names, features = model._names(), model._top_features(n)
    else:
        names = model.classes_.tolist()
        features = [model.top_features(name, n) for name in names]
    pairs = zip(names, features, strict=True)
    return {str(name): [feature._asdict() for feature in own] for name, own in pairs}


def text_facts(text: Any) -> dict[str, Any]:
    """Return the size of a text classifier's vocabulary, and the parts of its ensemble."""
    ensemble = text.ensemble_
    pairs = zip(ensemble.parts, ensemble.weights, strict=True)
    parts = [{"part": part.name, "weight": float(weight)} for part, weight in pairs]
    return {"words": len(text.vectorizer_.vocabulary_), "parts": parts}


def ensemble_facts(model: Any) -> dict[str, Any]:
    """Return the number of clusters, and of values in the residual regression; None if unused."""
    clusters, residual = (getattr(model, name, None) for name in ("groups_", "correction_"))
    return {
        "clusters": None if clusters is None else len(clusters.class_ratios),
        "residual": None if residual is None else len(residual.logs),
    }


def fit_facts(
    model: Any, table: Any, labels: Iterable[Any] | None, seconds: float
) -> dict[str, Any]:
    """Return the facts of a fit to a table: of a classifier with its labels, or of a mixture."""
    classes = model._names()
    facts: dict[str, Any] = {"rows": len(model.label_distributions_)}
    if labels is not None:
        given = Counter(label for label in labels if label is not None)
        facts["labelled"] = given.total()
        facts["classes"] = {str(name): given[name] for name in classes}
        facts["components"] = model.components_per_class_
        facts |= ensemble_facts(model)
    else:
        facts["weights"] = {str(k): float(w) for k, w in enumerate(model.weights_)}
    facts |= {
        "columns": columns_facts(model.columns_, table, getattr(model, "texts_", None)),
        "rounds": model.n_iter_,
        "converged": bool(model.converged_),
        "objective": float(model.objective_),
        "seconds": seconds,
    }
    if labels is not None:
        unlabelled = help_facts(getattr(model, "unlabeled_help_", None), classes)
        if unlabelled is None and facts["labelled"] < facts["rows"]:
            unlabelled = {"weight": float(model.unlabeled_weight != 0)}
        facts["unlabelled"] = unlabelled
    return facts | {"top_features": feature_facts(model)}


# What follows formats facts as text.


def format_facts(facts: Facts) -> list[str]:
    """Return facts as lines of text, each block after its label."""
    lines: list[str] = []
    for name, formatted in FORMATTERS.items():
        if facts.get(name) is not None:
            label = name.replace("_", " ")
            lines += [f"{'' if i else label:<{WIDTH}}{s}" for i, s in enumerate(formatted(facts))]
    return lines


def _percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %"


def _range(interval: Sequence[float]) -> str:
    return f"{100 * interval[0]:.0f}-{100 * interval[1]:.0f} %"


def _rows(facts: Facts) -> list[str]:
    n = f"{facts['rows']:,}"
    return [n if "labelled" not in facts else f"{facts['labelled']:,} labelled of {n} rows"]


def _classes(facts: Facts) -> list[str]:
    counts = [f"{_short(name)} {count:,}" for name, count in facts["classes"].items()]
    components = facts.get("components", 1)
    each = f"each a mixture of {components} components"
    return [_listed(counts), *([each] if components > 1 else [])]


def _clusters(facts: Facts) -> list[str]:
    return [f"{facts['clusters']} clusters of rows, each with its class distribution"]


def _residual(facts: Facts) -> list[str]:
    return [f"logistic regression on {facts['residual']:,} values, fitted to held-out labels"]


def _listed(items: Sequence[str]) -> str:
    more = len(items) - MOST_CLASSES
    return ", ".join(items[:MOST_CLASSES]) + (f" and {more} more" if more > 0 else "")


def _probabilities(found: Mapping[str, float]) -> list[str]:
    return [_listed([f"{_short(name)} {_percent(p)}" for name, p in found.items()])]


def _short(name: str) -> str:
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"


def _columns(facts: Facts) -> list[str]:
    lines, width = [], max(len(_short(c["name"])) for c in facts["columns"])
    for column in facts["columns"][:MOST_COLUMNS]:
        kind = "left out" if column["kind"] == "out" else column["kind"]
        notes = [column["note"]] if "note" in column else []
        if "words" in column:
            notes.append(f"{column['words']:,} words")
            if "parts" in column:
                notes.append(f"ensemble of {', '.join(one['part'] for one in column['parts'])}")
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


def _rounds(facts: Facts) -> list[str]:
    end = "" if facts["converged"] else ", not converged"
    rounds = "1 round" if facts["rounds"] == 1 else f"{facts['rounds']} rounds"
    if all("parts" in column for column in facts["columns"] if column["kind"] != "out"):
        rounds = "ensemble of models"
    took = f" in {facts['seconds']:.1f} s" if "seconds" in facts else ""
    return [f"{rounds}{took}{end}"]


def _unlabelled(facts: Facts) -> list[str]:
    found = facts["unlabelled"]
    chosen = used_scores(found)
    if chosen is None:
        done = "used" if found["weight"] else "left out"
        why = "see tacit evaluate"
        if sum(count > 1 for count in facts["classes"].values()) < 2:
            why = "label two rows each of two classes or more, so that some can be held out"
        return [f"{done}; expected accuracy unknown: {why}"]
    without, with_them = found["supervised"], found["em"]
    n, before, after = with_them["rows"], without["accuracy"], with_them["accuracy"]
    better = after > before or with_them["log_loss"] < without["log_loss"]
    done = f"do not {'clearly ' if better else ''}help, and are left out"
    if found["weight"]:
        clear = better and after >= before
        done = "help, and are used" if clear else "make no clear difference, and are used"
    lines = [
        f"{done}: accuracy by {n:,} held-out labels {_percent(before)} without them, "
        f"{_percent(after)} with them",
        f"expected accuracy on new rows: {_range(chosen['accuracy_interval'])} (95 % interval); "
        f"calibration error {chosen['calibration_error']:.2f}, log-loss {chosen['log_loss']:.2f}",
    ]
    few = [_short(name) for name, count in facts.get("classes", {}).items() if count < 2]
    if few:
        lines.append(
            f"taken for errors, as none can be held out: {_listed(few)} (label two of each)"
        )
    return lines


def _top_features(facts: Facts) -> list[str]:
    found = facts["top_features"]
    several = len({f["column"] for features in found.values() for f in features}) > 1
    lines, width = [], max(len(_short(name)) for name in found)
    for name, features in list(found.items())[:MOST_CLASSES]:
        shown = [f"{f['column']} {f['value']}" if several else f["value"] for f in features]
        between = "; " if several else ", "
        lines.append(f"{_short(name):<{width}}  {between.join(map(_short, shown))}")
    return lines


def _evaluation(facts: Facts, name: str) -> list[str]:
    found = facts[name]
    return [
        f"accuracy {_percent(found['accuracy'])} (95 % interval "
        f"{_range(found['accuracy_interval'])}), log-loss {abs(found['log_loss']):.3f}, "
        f"calibration error {found['calibration_error']:.3f} ({found['rows']:,} held-out labels)"
    ]


def _each_class(facts: Facts) -> list[str]:
    found = facts[facts["each_class"]]
    width = max(13, *(len(_short(name)) for name in found["classes"]))
    by = f"by {facts['each_class']}"
    lines = [f"{by:<{width}}  precision  recall  rows   predicted as"]
    names = list(found["classes"])
    for (name, own), counts in zip(found["classes"].items(), found["confusion"], strict=True):
        order = sorted(range(len(counts)), key=lambda k: -counts[k])
        labels = ", ".join(f"{names[k]} {counts[k]}" for k in order[:4] if counts[k])
        scores = [f"{own[s]:.2f}" if own[s] is not None else "-" for s in ("precision", "recall")]
        lines.append(
            f"{_short(name):<{width}}  {scores[0]:>9}  {scores[1]:>6}  {own['rows']:>4}   {labels}"
        )
    return lines


def _bic(facts: Facts) -> list[str]:
    best = min(facts["bic"], key=facts["bic"].get)
    return [
        ", ".join(
            f"{k}: {v:.6g}{' (lowest)' if k == best else ''}" for k, v in facts["bic"].items()
        )
    ]


FORMATTERS: dict[str, Callable[[Facts], list[str]]] = {
    "model": lambda facts: [facts["model"]],
    "rows": _rows,
    "classes": _classes,
    "class_priors": lambda facts: _probabilities(facts["class_priors"]),
    "weights": lambda facts: _probabilities(facts["weights"]),
    "columns": _columns,
    "clusters": _clusters,
    "residual": _residual,
    "bic": _bic,
    "rounds": _rounds,
    "unlabelled": _unlabelled,
    "supervised": lambda facts: _evaluation(facts, "supervised"),
    "em": lambda facts: _evaluation(facts, "em"),
    "each_class": _each_class,
    "top_features": _top_features,
    "wrote": lambda facts: list(facts["wrote"]),
}
