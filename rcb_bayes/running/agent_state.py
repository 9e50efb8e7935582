"""The schema of a recommender's state: everything that it goes on from.

A field that is added to ``AgentState`` (with what ``agent_files`` enters and takes from it) is written, checked by type
and read. ``RANGES`` has what a number must be beyond its type.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from rcb_bayes.files import Records
from rcb_bayes.files.records import Count, Positive
from rcb_bayes.mechanism.decisions import EXPLOIT
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.planning.plan import Plan
from rcb_bayes.planning.plan_files import RECORDS as PLANS
from rcb_bayes.running.moves import Move

_EPOCHS = 60  # epochs double, and nobody serves 2^60 users


@dataclass(frozen=True, kw_only=True, eq=False)
class Samples:
    """A history: sums over full chunks, X'X (K, d, d), X'y (K, d), y'y (K,), n (K,), and the rows that wait.

    ``old_*`` are the rows behind the sums, where rows are kept.
    """

    xtx: np.ndarray
    xty: np.ndarray
    yty: np.ndarray
    n: np.ndarray
    x: np.ndarray
    arm: np.ndarray
    reward: np.ndarray
    old_x: np.ndarray | None = None
    old_arm: np.ndarray | None = None
    old_reward: np.ndarray | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Fitted:
    """What an oracle expects: means (K, d) with covariances (K, d, d) where known, or draws (S, K, d)."""

    means: np.ndarray | None = None
    covariances: np.ndarray | None = None
    draws: np.ndarray | None = None
    vouched: bool = True


@dataclass(frozen=True, kw_only=True, eq=False)
class Cold:
    """The cold start: positions of saturated arms; no history of its own once it has become that of exploitation."""

    saturated: tuple[int, ...]
    history: Samples | None
    predictor: Fitted | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Epoch:
    """The epoch of exploitation; a predictor that is not there is fitted anew."""

    began: int
    epoch: int
    ends: int
    gamma: float
    fed: Samples
    now: Samples
    predictor: Fitted | None


@dataclass(frozen=True, kw_only=True, eq=False)
class Out:
    """Tickets (n,) that are out: users (n, d), arms, whether counted, and stages, in ``ROUND_KINDS``, (n,)."""

    ticket: np.ndarray
    x: np.ndarray
    arm: np.ndarray
    counted: np.ndarray
    stage: np.ndarray

    @property
    def in_cold_start(self) -> np.ndarray:
        """Which of them were issued before exploitation, (n,)."""
        return self.stage != EXPLOIT


@dataclass(frozen=True, kw_only=True, eq=False)
class Late:
    """Rewards that are late, early or given up.

    ``early`` are tickets whose reward is in and not yet looked at, with the arms taken and the rewards (n,);
    ``given_up`` (m, 3) are tickets, stages and arms; ``tally`` counts recommendations by fate, stage and arm.
    """

    patience: int | None
    looked: int
    early: Out
    taken: np.ndarray
    reward: np.ndarray
    given_up: np.ndarray
    tally: np.ndarray


@dataclass(frozen=True, kw_only=True, eq=False)
class Kept:
    """A log: the number of rounds that are kept, or the file they are written to; rows that are not settled.

    ``written`` are the rows of the file so far.
    """

    keep: int | str
    rows: tuple[tuple[int | float | str | None, ...], ...]
    written: int | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class AgentState:
    """Everything a recommender goes on from. Seeds are hexadecimal: they may have more digits than JSON keeps.

    ``gone`` are positions of arms that are not there, where arms have come or left, and ``moves`` tell when. ``heeds``:
    an arm came in exploitation, for which no guard was made, and users are heeded. ``by_samples``: arms were missing,
    and rates are those that users follow given whom the samples are of.
    """

    plan: Plan
    options: Exploiting
    entropy: tuple[str, ...]
    spawn_key: tuple[int, ...]
    own_oracle: bool
    rounds: int
    counts: tuple[int, ...]
    cold: Cold
    exploitation: Epoch | None
    pending: Out
    late: Late
    log: Kept | None
    gone: tuple[int, ...] | None = None
    moves: tuple[Move, ...] | None = None
    heeds: bool | None = None
    by_samples: bool | None = None


_Hex = Annotated[str, Meta(pattern="^[0-9a-f]{1,1000}$")]
RANGES: dict[type, dict[str, Any]] = {
    AgentState: {
        "entropy": Annotated[tuple[_Hex, ...], Meta(max_length=1000)],
        "spawn_key": Annotated[tuple[Annotated[int, Meta(ge=0)], ...], Meta(max_length=100)],
        "rounds": Count,
        "counts": tuple[Count, ...],
    },
    Cold: {"saturated": tuple[Count, ...]},
    Move: {"round": Count},
    Epoch: {"began": Count, "epoch": Annotated[int, Meta(ge=0, le=_EPOCHS)], "ends": Annotated[int, Meta(ge=0)]},
}
_Perhaps: Any = Count | None  # pyright: ignore[reportOperatorIssue]
RANGES[Late] = {"patience": _Perhaps, "looked": Count}
RANGES[Kept] = {"keep": Annotated[int, Meta(ge=1, le=2**53)] | Annotated[str, Meta(min_length=1, max_length=4096)]}
RANGES[Epoch]["gamma"] = Positive | Annotated[str, Meta(pattern="^inf$")]
RECORDS = Records(AgentState, ranges=RANGES, custom={Plan: PLANS.schema})
