"""Agents as files: a recommender's state, complete, and refused on reading unless a recommender could have got there.

``AgentState`` is the schema: a field that is added to it (with what ``state_of`` enters and ``restore`` takes from it)
is written, checked by type and read. ``RANGES`` has what a number must be beyond its type, ``_faults`` what fields must
be together, and with the plan and the market.
"""

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np
from msgspec import Meta

from rcb_bayes.errors import RcbError
from rcb_bayes.files import Format, Records, as_text, content_of, read_text, refused, write_atomically
from rcb_bayes.files.records import LARGEST, Count, Positive
from rcb_bayes.market import Market
from rcb_bayes.mechanism.decisions import EXPLOIT, ROUND_KINDS
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.planning.plan import Plan
from rcb_bayes.planning.plan_files import RECORDS as PLANS
from rcb_bayes.planning.plan_files import plan_of, plan_wire
from rcb_bayes.running.exploit import Exploitation
from rcb_bayes.running.history import CHUNK, History
from rcb_bayes.running.logbook import Logbook, columns_of
from rcb_bayes.running.oracle import DrawsPredictor, LinearPredictor, Predictor
from rcb_bayes.running.tickets import FATES, Early, Pending

if TYPE_CHECKING:
    from rcb_bayes.running.recommender import Recommender

FORM = Format(
    name="agent", version=2, remedy="Restore the file, or start a new recommender: `agent.save(path)` writes one."
)

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
    """A log: the number of rounds that are kept, or the file they are written to; rows that are not settled."""

    keep: int | str
    rows: tuple[tuple[int | float | str | None, ...], ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class AgentState:
    """Everything a recommender goes on from. Seeds are hexadecimal: they may have more digits than JSON keeps."""

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


_Hex = Annotated[str, Meta(pattern="^[0-9a-f]{1,1000}$")]
RANGES: dict[type, dict[str, Any]] = {
    AgentState: {
        "entropy": Annotated[tuple[_Hex, ...], Meta(max_length=1000)],
        "spawn_key": Annotated[tuple[Annotated[int, Meta(ge=0)], ...], Meta(max_length=100)],
        "rounds": Count,
        "counts": tuple[Count, ...],
    },
    Cold: {"saturated": tuple[Count, ...]},
    Epoch: {"began": Count, "epoch": Annotated[int, Meta(ge=0, le=_EPOCHS)], "ends": Annotated[int, Meta(ge=0)]},
}
_Perhaps: Any = Count | None  # pyright: ignore[reportOperatorIssue]
RANGES[Late] = {"patience": _Perhaps, "looked": Count}
RANGES[Kept] = {"keep": Annotated[int, Meta(ge=1, le=2**53)] | Annotated[str, Meta(min_length=1, max_length=4096)]}
RANGES[Epoch]["gamma"] = Positive | Annotated[str, Meta(pattern="^inf$")]
RECORDS = Records(AgentState, ranges=RANGES, custom={Plan: PLANS.schema})


# --- writing ---------------------------------------------------------------------------------------------------------


def write_agent(agent: "Recommender", path: str | Path) -> None:
    """Write a recommender to a file, at once or not at all."""
    content = RECORDS.to_wire(state_of(agent), {Plan: plan_wire})
    write_atomically(path, as_text(FORM, content).encode("utf-8"))


def state_of(agent: "Recommender") -> AgentState:
    """Everything that a recommender goes on from."""
    rcb, seed = agent._rcb, agent._seed
    entropy = seed.entropy
    assert entropy is not None  # drawn from the system where none was given
    found = rcb.exploitation
    is_fed = found is not None and found.fed is rcb.cold.history
    return AgentState(
        plan=agent.plan,
        options=rcb.options,
        entropy=tuple(f"{int(part):x}" for part in ([entropy] if isinstance(entropy, int) else entropy)),
        spawn_key=tuple(int(part) for part in seed.spawn_key),
        own_oracle=agent.own_oracle is not None,
        rounds=int(rcb.rounds),
        counts=tuple(rcb.counts.tolist()),
        cold=Cold(
            saturated=tuple(rcb.cold.saturated),
            history=None if is_fed else _samples(rcb.cold.history),
            predictor=_fitted(rcb.cold.predictor),
        ),
        exploitation=None if found is None else _epoch(found),
        pending=_out(agent, dict(agent._pending.items())),
        late=_late(agent),
        log=None if agent._log is None else _kept(agent._log.state()),
    )


def _samples(history: History) -> Samples:
    state = {name: np.asarray(value) for name, value in history.state().items()}
    whole = {"n", "arm", "old_arm"}
    return Samples(**{name: value.astype(np.int64) if name in whole else value for name, value in state.items()})


def _fitted(predictor: Predictor | None) -> Fitted | None:
    if isinstance(predictor, LinearPredictor):
        return Fitted(means=predictor.means, covariances=predictor.covariances, vouched=bool(predictor.vouched))
    if isinstance(predictor, DrawsPredictor):
        return Fitted(draws=predictor.draws, vouched=bool(predictor.vouched))
    return None


def _epoch(found: Exploitation) -> Epoch:
    return Epoch(
        began=int(found.began),
        epoch=int(found.epoch),
        ends=int(found.ends),
        gamma=float(found.gamma),
        fed=_samples(found.fed),
        now=_samples(found.now),
        predictor=_fitted(found.predictor),
    )


def _out(agent: "Recommender", tickets: dict[int, Pending]) -> Out:
    there = sorted(tickets.items(), key=lambda item: item[0])
    parts = [part for _, part in there]
    return Out(
        ticket=np.array([ticket for ticket, _ in there], dtype=np.int64),
        x=np.array([part.x for part in parts], dtype=float).reshape(len(parts), agent.market.n_features),
        arm=np.array([part.arm for part in parts], dtype=np.int64),
        counted=np.array([part.counted for part in parts], dtype=np.int64),
        stage=np.array([part.stage for part in parts], dtype=np.int64),
    )


def _late(agent: "Recommender") -> Late:
    early = dict(sorted(agent._early.items()))
    return Late(
        patience=agent._patience,
        looked=int(agent._looked),
        early=_out(agent, {ticket: found.pending for ticket, found in early.items()}),
        taken=np.array([found.arm for found in early.values()], dtype=np.int64),
        reward=np.array([found.reward for found in early.values()], dtype=float),
        given_up=np.array(
            [[ticket, *where] for ticket, where in sorted(agent._given_up.items())], dtype=np.int64
        ).reshape(-1, 3),
        tally=agent._tally.counts.copy(),
    )


def _kept(state: dict[str, Any]) -> Kept:
    return Kept(keep=state["keep"], rows=tuple(tuple(row) for row in state["rows"]))


# --- reading ---------------------------------------------------------------------------------------------------------


def read_agent(path: str | Path, market: Market) -> AgentState:
    """The state in a file, if a recommender of this market could have got there.

    Raises
    ------
    RcbError
        A file that is not there, is no agent, of another version; a digit that was changed; a state that cannot be.
    """
    content = content_of(FORM, read_text(FORM, path), where=path)
    try:
        state: AgentState = RECORDS.from_wire(RECORDS.checked(content), {PLANS.schema: plan_of})
        for fault in _faults(state, market):
            raise RcbError(fault)
    except (msgspec.ValidationError, RcbError) as error:
        raise refused(FORM, path, error) from None
    return state


def seed_of(state: AgentState) -> np.random.SeedSequence:
    """The seed as it was."""
    parts = [int(part, 16) for part in state.entropy]
    return np.random.SeedSequence(parts[0] if len(parts) == 1 else parts, spawn_key=state.spawn_key)


def restore(agent: "Recommender", state: AgentState) -> None:
    """Have a new recommender go on from a state."""
    rcb = agent._rcb
    rcb.rounds = state.rounds
    rcb.counts = np.array(state.counts, dtype=np.int64)
    found = state.exploitation
    if found is not None:
        rcb.exploitation = Exploitation.resumed(
            agent.market,
            agent.plan,
            rcb.oracle,
            options=rcb.options,
            began=found.began,
            epoch=found.epoch,
            ends=found.ends,
            gamma=found.gamma,
            fed=_history(found.fed),
            now=_history(found.now),
            predictor=_predictor(found.predictor, agent.market),
        )
    if state.cold.history is not None:
        rcb.cold.history = _history(state.cold.history)
    elif rcb.exploitation is not None:
        rcb.cold.history = rcb.exploitation.fed
    rcb.cold.saturated = state.cold.saturated
    rcb.cold.predictor = _predictor(state.cold.predictor, agent.market)
    for ticket, part in _tickets(state.pending):
        agent._pending.issue(ticket, part)
    _restore_late(agent, state)
    if state.log is not None:
        agent._log = _logbook(state.log, agent.market)


def _tickets(out: Out) -> list[tuple[int, Pending]]:
    parts = zip(out.x, out.arm.tolist(), out.counted.tolist(), out.stage.tolist(), strict=True)
    return [
        (ticket, Pending(x, arm, bool(counted), stage))
        for ticket, (x, arm, counted, stage) in zip(out.ticket.tolist(), parts, strict=True)
    ]


def _restore_late(agent: "Recommender", state: AgentState) -> None:
    late = state.late
    agent._patience, agent._looked = late.patience, late.looked
    agent._given_up = {ticket: (stage, arm) for ticket, stage, arm in late.given_up.tolist()}
    agent._tally.counts[:] = late.tally
    taken, reward = late.taken.tolist(), late.reward.tolist()
    for k, (ticket, part) in enumerate(_tickets(late.early)):
        agent._early[ticket] = Early(part, taken[k], reward[k])
    for _, part in [*_tickets(state.pending), *_tickets(late.early)]:
        agent._rcb.cold.waiting[part.arm] += part.counted and part.in_cold_start


def _logbook(kept: Kept, market: Market) -> Logbook | None:
    """The log as it was; a file that is gone is not begun anew: a state is data, and does not write where it says."""
    if isinstance(kept.keep, str) and not Path(kept.keep).is_file():
        warnings.warn(
            f"The log of this recommender, {kept.keep}, is not there: it goes on without one. Put the file back and "
            "load again to go on with it.",
            stacklevel=5,
        )
        return None
    book = Logbook(kept.keep, features=market.features, arms=market.arms)
    whole = [book.columns.index(name) for name in ("ticket", "counted")]
    rows = [list(row) for row in kept.rows]
    for row in rows:
        for place in whole:
            row[place] = int(float(row[place] or 0))
    book.restore({"rows": rows})
    return book


def _history(samples: Samples) -> History:
    names = ("xtx", "xty", "yty", "n", "x", "arm", "reward")
    state = {name: getattr(samples, name) for name in names}
    if samples.old_x is not None:
        state |= {name: getattr(samples, name) for name in ("old_x", "old_arm", "old_reward")}
    return History.from_state({name: value if "arm" in name else value.astype(float) for name, value in state.items()})


def _predictor(found: Fitted | None, market: Market) -> Predictor | None:
    if found is None:
        return None
    if found.draws is not None:
        return DrawsPredictor(found.draws, market.noise, found.vouched)
    assert found.means is not None  # one of the two is there
    return LinearPredictor(found.means, found.covariances, found.vouched)


# --- what must hold --------------------------------------------------------------------------------------------------


def _faults(state: AgentState, market: Market) -> Iterator[str]:
    """What contradicts itself, the plan or the market, in a state."""
    k = market.n_arms
    if (len(state.plan.arms), len(state.plan.features)) != (k, market.n_features):
        yield "its plan is for another market. Calibrate a plan for this market"
    if not state.entropy:
        yield "it has no seed"
    if len(state.counts) != k:
        yield f"it counts samples of {len(state.counts)} arms, the market has {k}"
    if state.cold.history is None and state.exploitation is None:
        yield "it has no history"
    for samples in _histories(state):
        yield from _sample_faults(samples, market)
    yield from _cold_faults(state, market)
    if state.exploitation is not None:
        yield from _epoch_faults(state, state.exploitation, market)
    yield from _count_faults(state)
    for out in (state.pending, state.late.early):
        yield from _ticket_faults(out, state, market)
    yield from _late_faults(state, market)
    if state.log is not None:
        yield from _log_faults(state.log, state, market)


def _histories(state: AgentState) -> list[Samples]:
    found = state.exploitation
    every = [state.cold.history] if found is None else [state.cold.history, found.fed, found.now]
    return [samples for samples in every if samples is not None]


def _total(samples: Samples) -> np.ndarray:
    """Samples of each arm, (K,)."""
    return samples.n + np.bincount(samples.arm, minlength=len(samples.n))


def _shaped(values: np.ndarray | None, shape: tuple[int, ...], kind: str) -> bool:
    """Whether an array has this shape and kind ("f" or "i"), and is finite, of a size that can be computed with."""
    return (
        values is not None
        and values.shape == shape
        and values.dtype.kind == kind
        and bool((np.abs(values) <= LARGEST).all())
    )


def _sample_faults(samples: Samples, market: Market) -> Iterator[str]:
    """What no sums and rows of samples can be."""
    k, d, m = market.n_arms, market.n_features, len(samples.arm)
    rows = (samples.x, samples.arm, samples.reward)
    shapes = {"xtx": (k, d, d), "xty": (k, d), "yty": (k,)}
    if not all(_shaped(getattr(samples, name), shape, "f") for name, shape in shapes.items()):
        yield "sums over samples have other shapes than the market's arms and features, or are not finite"
    if not (_shaped(samples.n, (k,), "i") and (samples.n >= 0).all() and (samples.n <= 2**53).all()):
        yield "numbers of samples must be whole, one for each arm"
    yield from _row_faults(rows, m, market)
    if m >= CHUNK:
        yield f"{m} samples wait to be summed, {CHUNK - 1} are the most"
    kept = (samples.old_x, samples.old_arm, samples.old_reward)
    if any(part is not None for part in kept):
        n_old = int(samples.n.sum())
        yield from _row_faults(kept, n_old, market)
        if not np.array_equal(np.bincount(kept[1], minlength=k), samples.n):  # pyright: ignore[reportCallIssue, reportArgumentType]
            yield "rows and numbers of samples disagree"
    elif not market.noise.is_gaussian:
        yield "rewards are 0 or 1, and the rows of their samples are not there"
    yield from _sum_faults(samples)


def _row_faults(rows: tuple[np.ndarray | None, ...], n: int, market: Market) -> Iterator[str]:
    x, arm, reward = rows
    if not (_shaped(x, (n, market.n_features), "f") and _shaped(arm, (n,), "i") and _shaped(reward, (n,), "f")):
        yield "rows of samples have other shapes than the market's features, or are not finite"
    assert arm is not None
    assert reward is not None
    if ((arm < 0) | (arm >= market.n_arms)).any():
        yield "a sample is of an arm that does not exist"
    if not market.noise.is_gaussian and not np.isin(reward, (0.0, 1.0)).all():
        yield "Bernoulli rewards are 0 or 1"


def _sum_faults(samples: Samples) -> Iterator[str]:
    """Sums of squares and products obey inequalities whatever the samples were."""
    none = samples.n == 0
    if samples.xtx[none].any() or samples.xty[none].any() or samples.yty[none].any():
        yield "an arm without samples has sums over them"
    diagonal = np.diagonal(samples.xtx, axis1=1, axis2=2)
    with np.errstate(over="ignore", invalid="ignore"):
        scale = np.maximum(diagonal.max(axis=1), 1e-300)
        if not (diagonal >= 0.0).all() or not (samples.yty >= 0.0).all():
            yield "a sum of squares is negative"
        skew = np.abs(samples.xtx - samples.xtx.swapaxes(1, 2)).max(axis=(1, 2))
        least = np.linalg.eigvalsh(samples.xtx)[:, 0]
        if not ((skew <= 1e-8 * scale) & (least >= -1e-8 * scale * len(diagonal[0]))).all():
            yield "sums of products are not those of any samples"
        if not (samples.xty**2 <= (1 + 1e-8) * diagonal * samples.yty[:, None] + 1e-300).all():
            yield "sums of products with rewards are not those of any samples"


def _fitted_faults(found: Fitted | None, market: Market) -> Iterator[str]:
    if found is None:
        return
    k, d = market.n_arms, market.n_features
    if (found.means is None) == (found.draws is None):
        yield "expectations are either means or draws"
    if found.means is not None and not _shaped(found.means, (k, d), "f"):
        yield "expected coefficients must be finite, one for each arm and feature"
    if found.covariances is not None:
        if found.means is None or not _shaped(found.covariances, (k, d, d), "f"):
            yield "covariances must be finite, of each arm's features"
        diagonal = np.diagonal(found.covariances, axis1=1, axis2=2)
        scale = np.maximum(diagonal.max(axis=1), 1e-300)
        if not (np.linalg.eigvalsh(found.covariances)[:, 0] >= -1e-6 * scale).all():
            yield "covariances must not be negative"
    if found.draws is not None and (
        market.noise.is_gaussian or not len(found.draws) or not _shaped(found.draws, (len(found.draws), k, d), "f")
    ):
        yield "draws of coefficients must be finite, of each arm and feature, and are for 0/1 rewards only"


def _cold_faults(state: AgentState, market: Market) -> Iterator[str]:
    k, saturated = market.n_arms, state.cold.saturated
    if list(saturated) != sorted(set(saturated)) or not all(arm < k for arm in saturated):
        yield "saturated arms do not exist, or stand there twice"
    yield from _fitted_faults(state.cold.predictor, market)
    if state.exploitation is not None and len(saturated) < k:
        yield "it exploits though some arms are not saturated"
    history = state.cold.history
    if history is None:
        return
    short = [arm for arm in saturated if _total(history)[arm] < state.plan.n_per_arm]
    if short:
        yield f"{state.plan.arms[short[0]]} is saturated without its {state.plan.n_per_arm:,} samples"
    is_between = state.exploitation is None and 0 < len(saturated) < k
    if is_between != (state.cold.predictor is not None):
        yield "what is expected in organic rounds is there if and only if some arms are saturated"


def _epoch_faults(state: AgentState, found: Epoch, market: Market) -> Iterator[str]:
    if not found.began <= state.rounds <= found.ends:
        yield f"round {state.rounds} is not within its epoch, {found.began} to {found.ends}"
    if found.ends != _end_of(state, found, market):
        yield f"epoch {found.epoch} cannot end after round {found.ends}"
    if int(sum(state.counts)) > state.rounds:
        yield f"it counts {sum(state.counts)} samples in {state.rounds} rounds"
    if market.noise.is_gaussian and found.predictor is not None and found.predictor.means is None:
        yield "expectations of linear rewards are means"
    yield from _fitted_faults(found.predictor, market)


def _end_of(state: AgentState, found: Epoch, market: Market) -> int:
    """The round after which the epoch ends, by the rule of exploitation itself."""
    probe = Exploitation.__new__(Exploitation)
    probe.market, probe.plan, probe.options = market, state.plan, state.options
    probe.began = probe.ends = found.began
    for epoch in range(found.epoch + 1):
        probe.epoch = epoch
        probe.ends += probe._length()
    return probe.ends


def _count_faults(state: AgentState) -> Iterator[str]:
    """Samples counted are those of the histories; a feed of the last epoch alone forgets the others."""
    counts, found = np.array(state.counts), state.exploitation
    if found is None:
        assert state.cold.history is not None  # checked before
        expected, forgets = _total(state.cold.history), False
    else:
        expected, forgets = _total(found.fed) + _total(found.now), state.options.feed == "last"
    if not ((counts >= expected).all() if forgets else np.array_equal(counts, expected)):
        yield "the samples counted are not those of its history"
    if int(counts.sum()) + int(state.pending.counted.sum()) > state.rounds:
        yield f"{int(counts.sum())} samples and the tickets that are out are more than {state.rounds} rounds"
    if found is not None and (counts < state.plan.n_per_arm).any():
        yield f"it exploits before every arm has its {state.plan.n_per_arm:,} samples"


def _ticket_faults(out: Out, state: AgentState, market: Market) -> Iterator[str]:
    n = len(out.ticket)
    whole = (out.ticket, out.arm, out.counted, out.stage)
    if not all(_shaped(part, (n,), "i") for part in whole) or not _shaped(out.x, (n, market.n_features), "f"):
        yield "tickets that are out have other shapes than the market's features, or are not finite"
    if n == 0:
        return
    if (np.diff(out.ticket) <= 0).any() or out.ticket[0] < 0 or out.ticket[-1] >= state.rounds:
        yield "a ticket is out that was never issued, or twice"
    if ((out.arm < 0) | (out.arm >= market.n_arms)).any():
        yield "a ticket is for an arm that does not exist"
    if not (np.isin(out.counted, (0, 1)).all() and np.isin(out.stage, range(len(ROUND_KINDS))).all()):
        yield "tickets are counted or not, 1 or 0, and of a stage there is"
    began = math.inf if state.exploitation is None else state.exploitation.began
    if not np.array_equal(out.in_cold_start, out.ticket < began):
        yield "a ticket is of another stage than its round"
    if (out.counted[~out.in_cold_start] == 0).any():
        yield "every sample of exploitation counts, and a ticket says otherwise"


def _late_faults(state: AgentState, market: Market) -> Iterator[str]:
    late, k = state.late, market.n_arms
    n = len(late.early.ticket)
    if not (_shaped(late.taken, (n,), "i") and _shaped(late.reward, (n,), "f")):
        yield "rewards that came early have other shapes than their tickets, or are not finite"
    if ((late.taken < 0) | (late.taken >= k)).any():
        yield "an arm was taken that does not exist"
    if not market.noise.is_gaussian and not np.isin(late.reward, (0.0, 1.0)).all():
        yield "Bernoulli rewards are 0 or 1"
    if late.looked > state.rounds or (late.patience is None and n):
        yield "rewards are looked at before their rounds, or wait though nobody is patient"
    gone = late.given_up
    if not _shaped(gone, (len(gone), 3), "i") or not _shaped(late.tally, (len(FATES), len(ROUND_KINDS), k), "i"):
        yield "tickets that were given up, or counts of rewards, have other shapes than stages and arms"
    if (gone < 0).any() or (gone >= [state.rounds, len(ROUND_KINDS), k]).any():
        yield "a ticket was given up that was never issued"
    every = np.concatenate([state.pending.ticket, late.early.ticket, gone[:, 0]])
    if len(np.unique(every)) < len(every):
        yield "a ticket is out, early or given up twice"
    made, *others = late.tally
    if (late.tally < 0).any() or int(made.sum()) != state.rounds or any((part > made).any() for part in others):
        yield "counts of rewards are not those of its rounds"


def _log_faults(kept: Kept, state: AgentState, market: Market) -> Iterator[str]:
    columns = columns_of(market.features, market.arms)
    words = [name in ("arm", "stage", "taken") for name in columns]
    for row in kept.rows:
        if len(row) != len(columns) or not all(
            isinstance(value, str) if word else value is None or not isinstance(value, str)
            for value, word in zip(row, words, strict=True)
        ):
            yield "a row of the log is no row of this market's"
        ticket, counted = (row[columns.index(name)] for name in ("ticket", "counted"))
        if ticket not in range(state.rounds) or counted not in (0, 1):
            yield "the log has a round that was never served"
