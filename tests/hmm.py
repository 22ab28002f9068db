"""A hidden Markov model as a model for `tacit.em`: its hidden variable is a path, not a label.

Written for the tests, to prove that the contract carries it (S23, of which PCFG and word alignment
are not built). A chunk is a list of sequences.
"""

from dataclasses import dataclass

import numpy as np

from tacit import em
from tacit.numerics import expected_log, log


@dataclass(frozen=True)
class Params:
    start: np.ndarray  # (S,)
    move: np.ndarray  # (S, S)
    emit: np.ndarray  # (S, V)


@dataclass(frozen=True)
class Counts(em.Statistics):
    start: np.ndarray
    move: np.ndarray
    emit: np.ndarray


class HMM:
    """Discrete emissions, scaled forward and backward passes; alpha smooths all tables."""

    def __init__(self, alpha=0.0):
        self.alpha = alpha

    def expect(self, params, sequences):
        size = params.emit.shape
        start, move, emit = np.zeros(size[0]), np.zeros((size[0], size[0])), np.zeros(size)
        log_likelihood = 0.0
        for words in sequences:
            likelihood = params.emit[:, words].T
            forward, scale = np.empty(likelihood.shape), np.empty(len(words))
            state = params.start
            for t in range(len(words)):
                joint = (state if t == 0 else forward[t - 1] @ params.move) * likelihood[t]
                scale[t] = joint.sum()
                forward[t] = joint / scale[t]
            backward = np.ones(size[0])
            for t in range(len(words) - 1, -1, -1):
                emit[:, words[t]] += forward[t] * backward
                if t == 0:
                    start += forward[0] * backward
                    break
                ahead = likelihood[t] * backward / scale[t]
                move += forward[t - 1][:, None] * params.move * ahead
                backward = params.move @ ahead
            log_likelihood += np.log(scale).sum()
        return Counts(log_likelihood, start, move, emit)

    def maximize(self, counts):
        tables = (t + self.alpha for t in (counts.start, counts.move, counts.emit))
        return Params(*(t / t.sum(axis=-1, keepdims=True) for t in tables))

    def log_prior(self, params):
        tables = (params.start, params.move, params.emit)
        return sum(self.alpha * np.log(table).sum() for table in tables) if self.alpha else 0.0

    def log_joint(self, params, counts):
        pairs = (
            (counts.start, params.start),
            (counts.move, params.move),
            (counts.emit, params.emit),
        )
        return sum(expected_log(count, log(table)) for count, table in pairs)


def random_params(rng, states, symbols):
    return Params(
        rng.dirichlet(np.ones(states)),
        rng.dirichlet(np.ones(states), states),
        rng.dirichlet(np.ones(symbols), states),
    )
