r"""Arms that come and go while a plan runs: what moved when, and a policy that runs, or replays, such a schedule.

An arm of the plan that was not there, or has left, comes back in the cold start as ``running.presence`` has it. One
that the market lacked comes with a belief, and while the cold start lasts with a plan for the market with it, which
promotes it. From any move on users are explored as often as they follow given whom the samples so far are of, for the
plan's rates are those of another law. In exploitation there is no plan for what is known by then: a guard
reckons with rivals that have their samples, and against one that stands at its prior mean a recommendation may lose
what it never would against these. So from any move on nobody is told an arm that she would hold, given all
data, to be worse by more than epsilon than another that is there (``running.heeding``): with
:math:`m_i \ge m_j - \epsilon` wherever :math:`p_i > 0` every margin holds, against the arm that came as against the
others, whatever the data. It is recommended where it is the best, and so gets its samples.

Rates then hold at each set of saturated arms by itself. Of a plan for users who know less, what one set leaves was to
pay for another: what was lost by then may not be made up for. ``warn_of_pooled`` says so.

All this holds where arms do not come or leave because of rewards, or of who came: at rounds that are settled
beforehand, or by what has nothing to do with either.
"""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from rcb_bayes.errors import MovesWarning, RcbError
from rcb_bayes.market import Market
from rcb_bayes.mechanism.choice import best_shares
from rcb_bayes.mechanism.decisions import Decisions
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.mechanism.knowledge import STAGE
from rcb_bayes.planning.arrivals import plan_with_arm
from rcb_bayes.planning.checks import check_feasible
from rcb_bayes.planning.plan import Plan
from rcb_bayes.running.heeding import Heeding
from rcb_bayes.running.oracle import Oracle, PosteriorOracle, Read
from rcb_bayes.running.policies import Rcb
from rcb_bayes.running.presence import confined, promises
from rcb_bayes.running.protocol import Policy
from rcb_bayes.schema import BoolArray, FloatArray, position_of


@dataclass(frozen=True, kw_only=True)
class Move:
    """An arm that came or left.

    Parameters
    ----------
    round : int
        How many users were served before.
    arm : str
        The arm.
    comes : bool
        Whether it came; else it left.
    plan : Plan, optional
        Of an arm that the plan before it lacked, the plan from then on.

    Examples
    --------
    >>> from rcb_bayes.running.moves import Move
    >>> Move(round=8000, arm="old", comes=False)
    Move(round=8000, arm='old', comes=False, plan=None)
    """

    round: int
    arm: str
    comes: bool
    plan: Plan | None = None


def warn_of_pooled(plan: Plan, label: str) -> None:
    """Warn of an arm that comes or leaves in a cold start whose plan is not for each set of saturated arms."""
    if plan.kind != "sampled" or plan.knows == STAGE.name:
        return
    warnings.warn(
        f"'{label}' moves in a cold start whose plan is for users who know the {plan.knows}: what it promises them is "
        "an average over sets of saturated arms, and other sets come now. Users are explored from now on as each set "
        "by itself allows; what they lost before may not be made up for. Calibrate a plan with knows='stage' where "
        "arms move.",
        MovesWarning,
        stacklevel=4,
    )


def warn_of_missing(plan: Plan) -> None:
    """Warn of users who lack arms in a run that was not told so from the start."""
    told = "Arms are missing for a user, and the plan was made for users who find all: "
    if not promises(plan):
        what = "for several types of users" if plan.types is not None else f"a {plan.kind} one"
        told += f"it is {what}, which promises nothing then. Calibrate one for users of one type."
    else:
        told += (
            "from now on users are explored as often as they follow given whom the samples are of, and heeded in "
            "exploitation. That keeps the promise if which arms are there does not depend on who the user is. If it "
            "does, say so from the start: Recommender(..., availability_varies=True)."
        )
        if plan.knows != STAGE.name:
            told += f" What users who know the {plan.knows} lost before may not be made up for."
    warnings.warn(told, MovesWarning, stacklevel=4)


def check_oracle(oracle: Oracle | None) -> None:
    """Refuse an oracle with a belief of its own, which knows nothing of a new arm.

    Raises
    ------
    RcbError
        Such an oracle.
    """
    inner = oracle.oracle if isinstance(oracle, Heeding) else oracle
    if isinstance(inner, PosteriorOracle):
        raise RcbError(
            "This recommender has an oracle with a belief of its own, which knows nothing of a new arm. Start one "
            "without oracle=: it goes by platform_prior, to which the arm is added."
        )


def grown(rcb: Rcb, market: Market, plan: Plan | None, *, oracle: Oracle | None) -> Rcb:
    """The algorithm in a market with one arm more; without a plan for it one is made.

    Raises
    ------
    RcbError
        A plan that is not feasible, or with which the run cannot go on; options under which users cannot be heeded.
    """
    check_oracle(oracle)
    lasts = rcb.exploitation is None
    if plan is None:
        plan = plan_with_arm(market, rcb.plan, lasts=lasts)
    check_feasible(plan)
    k = rcb.market.n_arms
    if plan.agenda.needed[:k] != rcb.plan.agenda.needed or plan.agenda.past[:k] != rcb.plan.agenda.past:
        raise RcbError("The new plan wants other samples of the arms there are. Make it with the same n_per_arm.")
    if not lasts and plan.agenda.needed[k:] != (0,) * (market.n_arms - k):
        raise RcbError("The cold start is over: nothing is promoted any more. Make the plan with 0 samples of the arm.")
    return rcb.grown(market, plan, oracle=oracle)


class Moving:
    """A plan with arms that come and go at rounds settled beforehand: a policy, to be simulated and audited.

    Parameters
    ----------
    plan : Plan
        For the arms at the start.
    moves : iterable of Move
        What comes and leaves, as ``Recommender.moves`` has it.

    Raises
    ------
    RcbError
        When it runs: a market whose first arms are not the plan's; moves that cannot be.

    Applicability
    -------------
    The market is the one with all arms, the new ones last; its belief has a closed form. An arm that is not there is
    nobody's rival.

    Examples
    --------
    With ``market`` and ``plan`` as in ``calibrate``:

    >>> from rcb_bayes.running.moves import Move, Moving
    >>> later = market.with_arm("newest", ([0.3, 0.3], 0.25))
    >>> moves = [Move(round=60, arm="newest", comes=True), Move(round=80, arm="old", comes=False)]
    >>> runs = rcb.simulate(later, Moving(plan, moves), horizon=100, n_worlds=2, seed=1)
    >>> bool((runs["recommended"].isel(t=slice(80, None)) > 0).all())
    True
    """

    def __init__(self, plan: Plan, moves: Iterable[Move] = ()) -> None:
        self.plan = plan
        self.moves = tuple(sorted(moves, key=lambda move: move.round))
        self._plans: dict[tuple[int, bool], Plan] = {}

    def __call__(self, market: Market, seed: int) -> "MovingRcb":
        """The policy in a world."""
        return MovingRcb(market, self)

    def plan_at(self, number: int, market: Market, rcb: Rcb) -> Plan:
        """The plan from a move on: its own, or one that is made once for all worlds."""
        move = self.moves[number]
        if move.plan is not None and move.plan.arms == market.arms:
            is_late = rcb.exploitation is not None
            if bool(move.plan.agenda.needed[-1]) != is_late:  # else it was made for another end of the cold start
                return move.plan
        key = number, rcb.exploitation is None
        if key not in self._plans:
            self._plans[key] = plan_with_arm(market, rcb.plan, lasts=rcb.exploitation is None)
        return self._plans[key]


class MovingRcb(Policy):
    """A plan in a world where arms come and go, among all arms that are ever there."""

    def __init__(
        self,
        market: Market,
        moving: Moving,
        *,
        oracle: Oracle | None = None,
        options: Exploiting | None = None,
        read: Read = "engine",
    ) -> None:
        k = len(moving.plan.arms)
        if market.arms[:k] != moving.plan.arms:
            raise RcbError(
                f"The plan is for arms {', '.join(moving.plan.arms)}, and the market does not begin with them. Use "
                "market.with_arm(label, belief) for every arm that comes."
            )
        self.market, self._moving, self._oracle = market, moving, oracle
        self._read: Read = read
        there = market.among(moving.plan.arms)
        self.rcb = Rcb(there, moving.plan, oracle=oracle or self._own(there), options=options)
        self._done = 0
        self._words: list[str] = []
        self.move()

    def _own(self, market: Market) -> PosteriorOracle:
        """The platform's posterior mean, of the arms so far."""
        return PosteriorOracle(market.platform_prior, market.noise, read=self._read)

    # --- what moves ---

    def move(self) -> bool:
        """Do what is due before the next user; whether anything was."""
        due = [move for move in self._moving.moves[self._done :] if move.round <= self.rcb.rounds]
        for move in due:
            self._do(self._done, move)
            self._done += 1
        return bool(due)

    def _do(self, number: int, move: Move) -> None:
        gone = self.rcb.cold.gone
        if move.arm not in self.rcb.market.arms:
            if not move.comes or self.market.arms[self.rcb.market.n_arms : self.rcb.market.n_arms + 1] != (move.arm,):
                raise RcbError(f"'{move.arm}' cannot {'come' if move.comes else 'leave'} at round {move.round}.")
            self.rcb.move_on()
            there = self.market.among(self.market.arms[: self.rcb.market.n_arms + 1])
            plan = self._moving.plan_at(number, there, self.rcb)
            self.rcb = self.rcb.grown(there, plan, oracle=self._oracle or self._own(there))
        else:
            place = position_of(move.arm, self.rcb.market.arms)
            if (place in gone) != move.comes:
                raise RcbError(f"'{move.arm}' cannot {'come' if move.comes else 'leave'} at round {move.round}.")
            gone = gone - {place} if move.comes else gone | {place}
            self.rcb.move_on()
            if move.comes and self.rcb.exploitation is not None:
                self.rcb.heed()
            self.rcb.without(frozenset(gone))
        if self.rcb.rounds:
            self._words.append(f"{'with' if move.comes else 'without'} {move.arm}")
        self.rcb.move_on()

    @property
    def present(self) -> BoolArray:
        """Which arms are there, of all that ever are, (K,)."""
        n = self.rcb.market.n_arms
        return np.array([arm < n and arm not in self.rcb.cold.gone for arm in range(self.market.n_arms)])

    def _until_move(self) -> int:
        left = self._moving.moves[self._done :]
        return left[0].round - self.rcb.rounds if left else 2**62

    # --- a policy ---

    def recommend_proba(self, x: FloatArray) -> FloatArray:
        """Probability of each arm for each user now, (n, d) -> (n, K)."""
        there = self.present[: self.rcb.market.n_arms]
        return self._wide(self.rcb.decided_now(x, there).probabilities, 0.0).T

    def decide(self, x: FloatArray, features: FloatArray, uniforms: FloatArray) -> Decisions:
        """Recommendations up to the next saturation, the end of the epoch, or the next move."""
        n = self._until_move()
        there = self.present[: self.rcb.market.n_arms]
        decisions = self.rcb.decide(x[:n], features[:, :n], uniforms[:n])
        found = confined(decisions, there, there if self.rcb.exploitation is None else self.rcb.has_samples)
        return Decisions(
            arm=found.arm,
            stage=found.stage,
            counted=found.counted,
            probabilities=self._wide(found.probabilities, 0.0),
            scores=self._wide(found.scores, -np.inf),
        )

    def update(self, x: FloatArray, decisions: Decisions, reward: FloatArray) -> None:
        """Count, end stages, and do what is due."""
        self.rcb.update(x, decisions, reward)
        self.move()

    def _wide(self, values: FloatArray, filling: float) -> FloatArray:
        """Values of the arms so far, (k, n), with those that are still to come, (K, n)."""
        more = self.market.n_arms - len(values)
        return np.pad(values, ((0, more), (0, 0)), constant_values=filling) if more else values

    @property
    def known_stage(self) -> str:
        """The stage, and what has moved so far."""
        return ", ".join([self.rcb.known_stage, *self._words])

    @property
    def n_acted_on(self) -> FloatArray:
        """Samples that recommendations rest on, (K,)."""
        return np.pad(self.rcb.n_acted_on, (0, self.market.n_arms - self.rcb.market.n_arms))

    def best(self, x: FloatArray) -> FloatArray:
        """Shares of the arms that are best, of those that are there, (n, d) -> (n, K)."""
        there = self.present[: self.rcb.market.n_arms]
        scores = self.rcb.decided_now(x, there).scores
        return self._wide(best_shares(np.where(there[:, None], scores, -np.inf), axis=0), 0.0).T

    @property
    def n_by_arm(self) -> np.ndarray:
        """Samples that count, (K,)."""
        return np.pad(self.rcb.n_by_arm, (0, self.market.n_arms - self.rcb.market.n_arms))

    @property
    def cold_start_length(self) -> int:
        """Rounds of the cold start; -1 before it is over."""
        return self.rcb.cold_start_length

    @property
    def gamma(self) -> float:
        """The present spread."""
        return self.rcb.gamma

    @property
    def n_fits(self) -> int:
        """Times that a posterior was fitted."""
        return self.rcb.n_fits

    @property
    def n_not_vouched(self) -> int:
        """Times that its engine did not vouch for it."""
        return self.rcb.n_not_vouched
