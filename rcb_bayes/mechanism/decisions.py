"""What was recommended to some users in a row, and with which probabilities."""

from dataclasses import dataclass

import numpy as np

from rcb_bayes.mechanism.kernel import pick
from rcb_bayes.schema import FloatArray

ROUND_KINDS: tuple[str, ...] = ("most popular", "promoted", "organic", "exploit")
MOST_POPULAR, PROMOTED, ORGANIC, EXPLOIT = range(len(ROUND_KINDS))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decisions:
    """Recommendations for n users.

    Attributes
    ----------
    arm : positions, (n,)
    stage : positions in ``ROUND_KINDS``, (n,)
    counted : whether the sample enters the data, (n,): organic rounds of a cold start do not
    probabilities : of every arm, before any coin was tossed, (K, n)
    scores : what the platform expects of every arm, (K, n)
    """

    arm: np.ndarray
    stage: np.ndarray
    counted: np.ndarray
    probabilities: FloatArray
    scores: FloatArray

    def __len__(self) -> int:
        return len(self.arm)

    @property
    def propensity(self) -> FloatArray:
        """The probability of what was recommended, (n,)."""
        return self.probabilities[self.arm, np.arange(len(self.arm))]

    @property
    def gain(self) -> FloatArray:
        """What is expected of the arm recommended beyond its best rival, (n,)."""
        return self.gain_of(self.arm)

    def gain_of(self, arm: np.ndarray) -> FloatArray:
        """The same of other arms, (n,)."""
        columns = np.arange(len(arm))
        expected = self.scores[arm, columns]
        rivals = self.scores.copy()
        rivals[arm, columns] = -np.inf
        return expected - rivals.max(axis=0)

    def first(self, n: int) -> "Decisions":
        """The first n of them."""
        if n >= len(self.arm):
            return self
        return Decisions(
            arm=self.arm[:n],
            stage=self.stage[:n],
            counted=self.counted[:n],
            probabilities=self.probabilities[:, :n],
            scores=self.scores[:, :n],
        )


def chosen(
    probabilities: FloatArray, scores: FloatArray, uniforms: FloatArray, *, stage: int = EXPLOIT, counted: bool = True
) -> Decisions:
    """Decisions of users in a row by probabilities (K, n), all at one stage."""
    n = probabilities.shape[1]
    return Decisions(
        arm=pick(probabilities, uniforms[:n, 1]),
        stage=np.full(n, stage, dtype=np.int8),
        counted=np.full(n, counted),
        probabilities=probabilities,
        scores=scores,
    )
