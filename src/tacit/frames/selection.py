"""Model selection for a table: held-out labels choose among candidates, or the default stays.

`select` chooses smoothing, bins, the weight of unlabelled rows, components, clusters, temperature
and the residual correction. How a candidate is evaluated is in `tacit.frames.candidates`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tacit.data.labels import Labels
from tacit.frames.base import PreparedTable
from tacit.frames.candidates import CLUSTER_WEIGHT, Candidate, CandidateEvaluator
from tacit.frames.clusters import TableClusters, n_clusters
from tacit.frames.residual import TableCorrection
from tacit.numerics import Array
from tacit.selection.clusters import MIN_UNLABELED
from tacit.selection.cross_validation import UnlabeledHelp

if TYPE_CHECKING:
    from tacit.frames.classifier import TableClassifier

__all__ = ["COMPONENTS", "DEFAULT_UNLABELED_WEIGHT", "Selected", "select"]

# Candidates of smoothing, of the weight of unlabelled rows and of components per class; and the
# weight where no label can be held out.
ALPHAS = (1.0, 0.1, 0.01, 0.001)
WEIGHTS = (0.1, 1.0)
COMPONENTS = (2, 3, 5)
DEFAULT_UNLABELED_WEIGHT = 0.1
# The smallest smoothing of components by "auto": without any, a value that a component does not
# have at its start it never gets.
MIN_COMPONENT_ALPHA = 0.1
# The expected temperature of naive Bayes is the number of columns to this power: halfway between
# independent columns (0) and copies of one column (1).
TEMPERATURE_POWER = 0.5
# A further factor of the temperature where held-out labels cannot decide and clusters are used:
# what unlabelled rows make of so few labels is overconfident.
UNTESTED_TEMPERATURE = 2.0
# Nats by which the out-of-fold loss must be lower, beside a standard error, to leave the default
# (alpha = 1, bins, clusters), and to take unlabelled rows and more components.
MARGIN = 1.0
# Labels for each component, on average over the classes, from which on it is a candidate.
LABELS_PER_COMPONENT = 12
# Held-out labels from which on they choose between bins and normal numbers, and whether unlabelled
# rows and clusters are used.
MIN_TO_CHOOSE = 20


class Selected(NamedTuple):
    """The result of model selection.

    Attributes
    ----------
    candidate : Candidate
        The selected setting.
    help : UnlabeledHelp or None
        Whether unlabelled rows help, if there are any.
    temperature : float
        The divisor of the log-odds of all columns but texts.
    text_weights : dict
        The factor of the log-odds of each text.
    clusters : TableClusters or None
        Clusters of rows, if they are used.
    correction : TableCorrection or None
        The residual correction of all these.
    """

    candidate: Candidate
    help: UnlabeledHelp | None
    temperature: float
    text_weights: dict[str, float]
    clusters: TableClusters | None = None
    correction: TableCorrection | None = None


def select(
    classifier: TableClassifier,
    X: PreparedTable,
    labels: Labels,
    weight: Array,
    default: Candidate,
    components: Sequence[int],
) -> Selected:
    """Return the candidate that held-out labels clearly prefer, else the default.

    `default` leaves unlabelled rows out; `components` are further numbers of components to try.
    """
    others = [c for c in X.columns if c.name not in classifier.texts_ and c.kind != "out"]
    kinds, temperature = {c.kind for c in others}, max(float(len(others)), 1.0) ** TEMPERATURE_POWER
    unknown, texts = bool(labels.unknown.any()), list(classifier.texts_.values())
    text_weights = dict.fromkeys(classifier.texts_, 1.0)
    if not kinds and len(texts) == 1:  # which has selected all there is
        report = texts[0].unlabeled_help_
        chosen = default._replace(unlabeled_weight=report.weight)
        return Selected(chosen, report if unknown else None, 1.0, text_weights)
    either = classifier.numbers == "auto" and "number" in kinds
    bins = [True, False] if either else [default.bins]
    smoothed = ("number" in kinds and any(bins)) or kinds & {"category", "yes/no"}
    auto_alpha = classifier.alpha == "auto"
    alphas = ALPHAS if auto_alpha and smoothed else [default.alpha]
    candidates = [default._replace(alpha=alpha, bins=cut) for cut, alpha in product(bins, alphas)]
    # Texts were fitted to the labels that are held out here: their log-odds are set to 0.
    zeros = [np.zeros_like(block) for block in X.blocks[: len(texts)]]
    masked = replace(X, blocks=(*zeros, *X.blocks[len(texts) :]))
    tables = {cut: classifier._with_bins(masked, cut) for cut in bins}
    evaluator = CandidateEvaluator(classifier, tables, labels, weight, temperature, len(alphas) > 1)
    if components:
        evaluator.encode_residual_features(X)
    report, unlabeled = None, float(weight[labels.unknown].sum() / max(weight.sum(), 1e-300))
    clusters = bool(components) and len(others) > 1 and unlabeled >= MIN_UNLABELED
    clusters &= len(labels.classes) <= n_clusters(int((evaluator.weight > 0).sum()))
    if clusters:
        evaluator.fit_clusters(X)
    can_decide = evaluator.can_decide(candidates[0])
    if not can_decide or (evaluator.few and evaluator.n_held_out < MIN_TO_CHOOSE):
        return _default(evaluator, default, text_weights, unknown, can_decide)
    if evaluator.few:
        candidates = [one for one in candidates if one.alpha == default.alpha]
    results = [evaluator.evaluate(candidate) for candidate in candidates]
    better = [i for i, result in enumerate(results) if result.beats(results[0], MARGIN)]
    i = min(better, key=lambda i: results[i].loss, default=0)
    chosen, best = candidates[i], results[i]
    evaluator.kept_fits.clear()  # no other alpha is tried
    if clusters:
        other = evaluator.evaluate(chosen, clusters)
        clusters = not best.beats(other, MARGIN)
        best = other if clusters else best
    if evaluator.few:  # few labels must speak against unlabelled rows, many must speak for them
        chosen = chosen._replace(unlabeled_weight=DEFAULT_UNLABELED_WEIGHT)
        best = evaluator.evaluate(chosen, clusters)
    per_class = evaluator.n_held_out / len(labels.classes)
    components = [M for M in components if per_class >= LABELS_PER_COMPONENT * M]
    lowest = (
        {True: best} if clusters else {}
    )  # the lowest loss, by whether unlabelled rows are used
    for M in (default.components, *components):
        more = M in components
        alpha = max(chosen.alpha, MIN_COMPONENT_ALPHA) if auto_alpha and more else chosen.alpha
        weights = (0.0, *WEIGHTS) if unknown else (0.0,)
        candidates = [Candidate(alpha, chosen.bins, given, M) for given in weights]
        results = [evaluator.evaluate(candidate, clusters) for candidate in candidates]
        alone = evaluator.evaluate(candidates[0]) if clusters else results[0]
        for used, result in [(False, alone), *((True, result) for result in results[1:])]:
            lowest[used] = min(lowest.get(used, result), result, key=lambda one: one.loss)
        i = int(np.argmin([result.loss for result in results]))
        if results[i].beats(best, MARGIN):
            chosen, best = candidates[i], results[i]
        elif more:
            break
    ensembles, used = [best], bool(texts) or chosen.unlabeled_weight > 0 or clusters
    if unknown:
        supervised = chosen._replace(unlabeled_weight=0.0)
        ensembles.append(
            evaluator.evaluate(supervised, supervised=True) if texts else lowest[not used]
        )
    if evaluator.few:
        ensembles = list(map(evaluator.tempered, ensembles))
        best = ensembles[0]
    correction, ensembles = evaluator.corrected(*ensembles)
    if unknown:
        without, with_them = ensembles[::-1] if used else ensembles
        given = [chosen.unlabeled_weight or float(clusters)]
        given += [text.unlabeled_help_.weight for text in texts]
        before, after = map(evaluator.evaluation, (without, with_them))
        report = UnlabeledHelp(before, after, max(given))
    temperature, factors = 1.0 / float(best.weights[0]), best.weights[1:].tolist()
    kept = (
        replace(evaluator.clusters, weight=factors.pop())
        if clusters and evaluator.clusters
        else None
    )
    text_weights = dict(zip(text_weights, factors, strict=True))
    return Selected(chosen, report, temperature, text_weights, kept, correction)


def _default(
    evaluator: CandidateEvaluator,
    default: Candidate,
    text_weights: dict[str, float],
    unknown: bool,
    can_decide: bool,
) -> Selected:
    """Return the default, with unlabelled rows unless few held-out labels speak against them."""
    clusters = evaluator.clusters and replace(evaluator.clusters, weight=CLUSTER_WEIGHT)
    temperature = evaluator.temperature
    if not unknown:
        return Selected(default, None, temperature, text_weights, clusters)
    weight = DEFAULT_UNLABELED_WEIGHT
    semi_supervised = default._replace(unlabeled_weight=weight)
    if not can_decide:
        if clusters and not evaluator.texts:  # texts are calibrated by themselves
            clusters = replace(clusters, weight=CLUSTER_WEIGHT / UNTESTED_TEMPERATURE)
            temperature = UNTESTED_TEMPERATURE * temperature
        report = UnlabeledHelp(None, None, weight)
        return Selected(semi_supervised, report, temperature, text_weights, clusters)
    without = evaluator.evaluate(default)
    with_them = evaluator.evaluate(semi_supervised, clusters is not None)
    used = not without.beats(with_them, MARGIN)
    chosen = semi_supervised if used else default
    ensembles = [with_them, without] if used else [without, with_them]
    best, other = map(evaluator.tempered, ensembles)
    clusters = clusters and replace(clusters, weight=float(best.weights[-1])) if used else None
    correction, ensembles = evaluator.corrected(best, other)
    without, with_them = ensembles[::-1] if used else ensembles
    before, after = map(evaluator.evaluation, (without, with_them))
    report = UnlabeledHelp(before, after, chosen.unlabeled_weight)
    temperature = 1.0 / float(best.weights[0])
    return Selected(chosen, report, temperature, text_weights, clusters, correction)
