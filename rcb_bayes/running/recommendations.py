"""What a recommender answers: an arm, its probabilities, and why."""

from dataclasses import dataclass

import numpy as np

from rcb_bayes.mechanism.decisions import EXPLOIT, MOST_POPULAR, PROMOTED, ROUND_KINDS, Decisions
from rcb_bayes.schema import FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Recommendation:
    """What to recommend to a user, and why.

    Attributes
    ----------
    arm : its label
    ticket : to be handed in with the reward
    propensity : the probability with which this arm was recommended to her
    probabilities : of every arm, by label
    stage : "most popular", "promoted", "organic" or "exploit"
    reason : the same in words
    """

    arm: str
    ticket: int
    propensity: float
    probabilities: dict[str, float]
    stage: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recommendations:
    """The same for n users: labels (n,), tickets (n,), propensities (n,), probabilities (n, K), stages (n,)."""

    arm: np.ndarray
    ticket: np.ndarray
    propensity: FloatArray
    probabilities: FloatArray
    stage: np.ndarray

    def __len__(self) -> int:
        return len(self.arm)


def recommendation(
    ticket: int, arm: int, kind: int, chances: list[float], scores: list[float], *, labels: tuple[str, ...]
) -> Recommendation:
    """The record of a round of some kind, from probabilities and expected rewards of every arm."""
    return Recommendation(
        arm=labels[arm],
        ticket=ticket,
        propensity=chances[arm],
        probabilities=dict(zip(labels, chances, strict=True)),
        stage=ROUND_KINDS[kind],
        reason=_reason(kind, arm, scores, labels),
    )


def recommendations(parts: list[Decisions], *, first: int, labels: tuple[str, ...]) -> Recommendations:
    """The records of rounds decided in parts, tickets first, first + 1, ...."""
    arm = np.concatenate([np.zeros(0, dtype=np.int64), *(part.arm for part in parts)])
    kind = np.concatenate([np.zeros(0, dtype=np.int8), *(part.stage for part in parts)])
    chances = np.concatenate([np.zeros((len(labels), 0)), *(part.probabilities for part in parts)], axis=1)
    return Recommendations(
        arm=np.array(labels)[arm],
        ticket=np.arange(first, first + len(arm)),
        propensity=chances[arm, np.arange(len(arm))],
        probabilities=chances.T,
        stage=np.array(ROUND_KINDS)[kind],
    )


def _reason(kind: int, arm: int, scores: list[float], labels: tuple[str, ...]) -> str:
    name = labels[arm]
    if kind == MOST_POPULAR:
        return f"first samples: {name} is what users like her expect most of"
    if kind == PROMOTED:
        return f"exploration: {name} is the best liked arm that still needs samples"
    top = max(scores)
    if scores[arm] == top or kind != EXPLOIT:
        return f"{name} is expected to be best, {scores[arm]:.3g}"
    best = labels[scores.index(top)]
    return f"{best} is expected to be better by {top - scores[arm]:.3g}: sampled in proportion to that"
