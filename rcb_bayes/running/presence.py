r"""Arms that are not there: for one user, for a time, or for good.

A plan's probabilities are those of all arms. What an arm that is not there would have had goes to the best of those
that are, by what the platform expects now; so does what an arm would have had beyond being the best that came without
the samples the plan gives it. With i, j two arms that are there, recommending i leaves

.. math:: H'_{ij} = H_{ij} + E[\text{mass moved to } i\; (m_i - m_j + \epsilon)] \ge H_{ij},

since mass moves to i only where :math:`m_i \ge m_j`: a plan whose users follow it keeps them, among the arms that are
there. That needs a presence that does not depend on rewards beyond what users know: an arm that is withdrawn because it
did badly tells them so. An explored round whose arm is not there is an organic one, and does not count. An arm that has
left is closed to promotion as a saturated one is, so that stages go on; with independent arms what is then known of the
others has the law of that stage, up to who was sampled.

The sum is over worlds of one law. At each set of saturated arms the law stays, so that a plan for users who know the
set is kept. A plan for users who know less averages over sets, and an arm that leaves in the cold start changes which
of them come (``running.moves`` warns). In epochs after an arm has left the others have more samples than the guard
reckoned with: an audit of the moves (``running.moves.Moving``) tells what that makes.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.mechanism.decisions import EXPLOIT, ORGANIC, Decisions
from rcb_bayes.schema import BoolArray, suggestion


def as_present(available: object, arms: Sequence[str], gone: frozenset[int]) -> BoolArray:
    """Which arms are there for a user, (K,): those that have not left and, if told, are ``available`` to her.

    Raises
    ------
    RcbError
        Labels that are no arms, or nothing left.
    """
    present = np.array([arm not in gone for arm in range(len(arms))])
    if available is not None:
        names = [available] if isinstance(available, str) else [str(name) for name in available]  # type: ignore[union-attr]
        told = {position_of(name, arms) for name in names}
        present &= np.array([arm in told for arm in range(len(arms))])
    if not present.any():
        raise RcbError("No arm is left for this user: those that are available have all left. Name others.")
    return present


def position_of(label: object, arms: Sequence[str]) -> int:
    """Where an arm stands.

    Raises
    ------
    RcbError
        No such arm, with the nearest.
    """
    if label not in arms:
        raise RcbError(f"There is no arm '{label}'.{suggestion(str(label), arms)} The arms are {', '.join(arms)}.")
    return list(arms).index(str(label))


def confined(decisions: Decisions, present: BoolArray, sampled: BoolArray) -> Decisions:
    """The same recommendations where some arms are not there, or came without their samples, (K,) each."""
    scores = np.where(present[:, None], decisions.scores, -np.inf)
    best = scores.argmax(axis=0)  # (n,)
    columns = np.arange(len(best))
    keeps = np.tile((present & sampled)[:, None], len(best))
    keeps[best, columns] = True
    probabilities = np.where(keeps, decisions.probabilities, 0.0)
    probabilities[best, columns] += np.where(keeps, 0.0, decisions.probabilities).sum(axis=0)
    moved = ~keeps[decisions.arm, columns]
    in_cold_start = decisions.stage != EXPLOIT
    return replace(
        decisions,
        arm=np.where(moved, best, decisions.arm),
        stage=np.where(moved & in_cold_start, ORGANIC, decisions.stage).astype(decisions.stage.dtype),
        counted=decisions.counted & ~(moved & in_cold_start),
        probabilities=probabilities,
    )
