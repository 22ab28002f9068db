"""What hidden labels decide about a table: how its columns are seen, and which rows take part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tacit.data.labels import Labels
from tacit.frames.base import Prepared
from tacit.frames.candidates import LEAD, Setting, Trial
from tacit.frames.clusters import Groups, how_many
from tacit.frames.residual import TableCorrection
from tacit.numerics import Array
from tacit.selection.clusters import UNLABELED
from tacit.selection.cross_validation import UnlabeledHelp

if TYPE_CHECKING:
    from tacit.frames.classifier import TableClassifier

__all__ = ["COMPONENTS", "UNTRIED", "Settled", "settle"]

# What is tried: smoothing, and weights of rows without a label; and the weight where nothing can be
# tried.
ALPHAS = (1.0, 0.1, 0.01, 0.001)
WEIGHTS = (0.1, 1.0)
COMPONENTS = (2, 3, 5)
UNTRIED = 0.1
# What "auto" smooths components by at least: without smoothing, what a component begins with is all
# that it will ever have.
LEAST_ALPHA = 0.1
# How much too sure naive Bayes is expected to be, by the number of columns: halfway between columns
# that all say the same, and columns that have nothing to do with each other.
DOUBTED = 0.5
# What all log-odds are divided by, beside that, where hidden labels cannot tell and groups have a
# say: what rows without a label make of so few labels is less sure than it looks.
UNTOLD = 2.0
# Nats by which hidden labels must speak, beside a standard error, against what is usual (alpha = 1,
# numbers in bins, groups of rows), and for rows without a label and more components.
MARGIN = 1.0
# Labels that there must be for each component, on average over the classes, before it is tried.
PER_COMPONENT = 12
# Hidden labels from which on they choose between bins and normal numbers, and what becomes of rows
# without a label: their weight, and groups.
SOME = 20


class Settled(NamedTuple):
    """What hidden labels decided.

    Attributes
    ----------
    setting : Setting
        What is best.
    help : UnlabeledHelp or None
        Whether rows without a label help, if there are any.
    temperature : float
        By which log-odds are divided.
    text_weights : dict
        By which those of each text are multiplied.
    groups : Groups or None
        Groups of rows that say something of the classes, if they do.
    correction : TableCorrection or None
        What puts right what all these say.
    """

    setting: Setting
    help: UnlabeledHelp | None
    temperature: float
    text_weights: dict[str, float]
    groups: Groups | None = None
    correction: TableCorrection | None = None


def settle(
    classifier: TableClassifier,
    X: Prepared,
    labels: Labels,
    weight: Array,
    usual: Setting,
    more: Sequence[int],
) -> Settled:
    """Choose a setting by hidden labels: the usual one, or what they speak for.

    `usual` has no weight for rows without a label; `more` are numbers of components to try.
    """
    others = [c for c in X.columns if c.name not in classifier.texts_ and c.kind != "out"]
    kinds, doubt = {c.kind for c in others}, max(float(len(others)), 1.0) ** DOUBTED
    unknown, texts = bool(labels.unknown.any()), list(classifier.texts_.values())
    even = dict.fromkeys(classifier.texts_, 1.0)
    if not kinds and len(texts) == 1:  # which has settled all there is
        told = texts[0].unlabeled_help_
        setting = usual._replace(unlabeled_weight=told.weight)
        return Settled(setting, told if unknown else None, 1.0, even)
    either = classifier.numbers == "auto" and "number" in kinds
    bins = [True, False] if either else [usual.bins]
    counted = ("number" in kinds and any(bins)) or kinds & {"category", "yes/no"}
    free = classifier.alpha == "auto"
    alphas = ALPHAS if free and counted else [usual.alpha]
    settings = [usual._replace(alpha=alpha, bins=cut) for cut, alpha in product(bins, alphas)]
    # What texts say of rows without a label, hidden labels have taught them: it is left out.
    none = [np.zeros_like(block) for block in X.blocks[: len(texts)]]
    plain = replace(X, blocks=(*none, *X.blocks[len(texts) :]))
    tables = {cut: classifier._cut(plain, cut) for cut in bins}
    trial = Trial(classifier, tables, labels, weight, doubt, len(alphas) > 1)
    if more:
        trial.look_at_cells(X)
    told, among = None, float(weight[labels.unknown].sum() / max(weight.sum(), 1e-300))
    grouped = bool(more) and len(others) > 1 and among >= UNLABELED
    grouped &= len(labels.classes) <= how_many(int((trial.weight > 0).sum()))
    if grouped:
        trial.look(X)
    tells = trial.tells(settings[0])
    if not tells or (trial.few and trial.count < SOME):
        return _usual(trial, usual, even, unknown, tells)
    if trial.few:
        settings = [setting for setting in settings if setting.alpha == usual.alpha]
    tried = [trial(setting) for setting in settings]
    better = [place for place, one in enumerate(tried) if one.beats(tried[0], MARGIN)]
    place = min(better, key=lambda place: tried[place].loss, default=0)
    chosen, best = settings[place], tried[place]
    trial.counted.clear()  # no other alpha is tried
    if grouped and (grouped := not best.beats(other := trial(chosen, grouped), MARGIN)):
        best = other
    if trial.few:  # so few must speak against rows without a label, more must speak for them
        chosen = chosen._replace(unlabeled_weight=UNTRIED)
        best = trial(chosen, grouped)
    labelled = trial.count / len(labels.classes)
    more = [components for components in more if labelled >= PER_COMPONENT * components]
    least = {True: best} if grouped else {}  # by whether rows without a label take part
    for components in (usual.components, *more):
        alpha = max(chosen.alpha, LEAST_ALPHA) if free and components in more else chosen.alpha
        weights = (0.0, *WEIGHTS) if unknown else (0.0,)
        settings = [Setting(alpha, chosen.bins, given, components) for given in weights]
        tried = [trial(setting, grouped) for setting in settings]
        alone = trial(settings[0]) if grouped else tried[0]
        for part, one in [(False, alone), *((True, one) for one in tried[1:])]:
            least[part] = min(least.get(part, one), one, key=lambda found: found.loss)
        place = int(np.argmin([one.loss for one in tried]))
        if tried[place].beats(best, MARGIN):
            chosen, best = settings[place], tried[place]
        elif components in more:
            break
    pools, used = [best], bool(texts) or chosen.unlabeled_weight > 0 or grouped
    if unknown:
        left = chosen._replace(unlabeled_weight=0.0)
        pools.append(trial(left, supervised=True) if texts else least[not used])
    if trial.few:
        pools = list(map(trial.trusted, pools))
        best = pools[0]
    correction, pools = trial.corrected(*pools)
    if unknown:
        without, other = pools[::-1] if used else pools
        given = [chosen.unlabeled_weight or float(grouped)]
        given += [text.unlabeled_help_.weight for text in texts]
        told = UnlabeledHelp(without.evaluation, other.evaluation, max(given))
    temperature, by = 1.0 / float(best.weights[0]), best.weights[1:].tolist()
    groups = replace(trial.groups, weight=by.pop()) if grouped and trial.groups else None
    text_weights = dict(zip(even, by, strict=True))
    return Settled(chosen, told, temperature, text_weights, groups, correction)


def _usual(
    trial: Trial, usual: Setting, even: dict[str, float], unknown: bool, tells: bool
) -> Settled:
    """Settle for what is usual, with rows without a label unless few hidden labels forbid it."""
    groups, doubt = trial.groups and replace(trial.groups, weight=LEAD), trial.doubt
    if not unknown:
        return Settled(usual, None, doubt, even, groups)
    untried = usual._replace(unlabeled_weight=UNTRIED)
    if not tells:
        if groups and not trial.texts:  # what texts say is calibrated by itself
            groups, doubt = replace(groups, weight=LEAD / UNTOLD), UNTOLD * doubt
        return Settled(untried, UnlabeledHelp(None, None, UNTRIED), doubt, even, groups)
    without, found = trial(usual), trial(untried, groups is not None)
    used = not without.beats(found, MARGIN)
    chosen, pools = (untried, [found, without]) if used else (usual, [without, found])
    best, other = map(trial.trusted, pools)
    groups = groups and replace(groups, weight=float(best.weights[-1])) if used else None
    correction, pools = trial.corrected(best, other)
    without, found = pools[::-1] if used else pools
    told = UnlabeledHelp(without.evaluation, found.evaluation, chosen.unlabeled_weight)
    return Settled(chosen, told, 1.0 / float(best.weights[0]), even, groups, correction)
