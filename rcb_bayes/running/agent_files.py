"""Agents as files: a recommender's state, complete, and refused on reading unless a recommender could have got there.

``agent_state`` is the schema, ``agent_faults`` what must hold in it.
"""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from rcb_bayes.errors import RcbError
from rcb_bayes.files import Format, as_text, content_of, read_text, refused, write_atomically
from rcb_bayes.market import Market
from rcb_bayes.planning.plan import Plan
from rcb_bayes.planning.plan_files import RECORDS as PLANS
from rcb_bayes.planning.plan_files import plan_of, plan_wire
from rcb_bayes.running.agent_faults import faults_of
from rcb_bayes.running.agent_state import RECORDS, AgentState, Cold, Epoch, Fitted, Kept, Late, Out, Samples
from rcb_bayes.running.exploit import Exploitation
from rcb_bayes.running.history import History
from rcb_bayes.running.logbook import Logbook
from rcb_bayes.running.oracle import DrawsPredictor, LinearPredictor, Predictor
from rcb_bayes.running.tickets import Early, Pending

if TYPE_CHECKING:
    from rcb_bayes.running.recommender import Recommender


FORM = Format(
    name="agent",
    version=5,
    remedy="Restore the file, or start a new recommender: `agent.save(path)` writes one.",
    most_values=2**25,  # the rounds of its log
)


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
        pending=_out(agent, dict(agent._awaited.pending.items())),
        late=_late(agent),
        log=None if agent._awaited.log is None else _kept(agent._awaited.log.state()),
        gone=tuple(sorted(rcb.cold.gone)) if agent.moves else None,
        moves=agent.moves or None,
        heeds=agent.heeds or None,
        by_samples=rcb.cold.by_samples or None,
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
    awaited = agent._awaited
    early = dict(sorted(awaited.early.items()))
    return Late(
        patience=awaited.patience,
        looked=int(awaited.looked),
        early=_out(agent, {ticket: found.pending for ticket, found in early.items()}),
        taken=np.array([found.arm for found in early.values()], dtype=np.int64),
        reward=np.array([found.reward for found in early.values()], dtype=float),
        given_up=np.array(
            [[ticket, *where] for ticket, where in sorted(awaited.given_up.items())], dtype=np.int64
        ).reshape(-1, 3),
        tally=awaited.tally.counts.copy(),
    )


def _kept(state: dict[str, Any]) -> Kept:
    return Kept(keep=state["keep"], rows=tuple(tuple(row) for row in state["rows"]), written=state["written"])


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
        for fault in faults_of(state, market):
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
    agent._is_told = bool(state.by_samples)
    if state.by_samples:
        rcb.go_by_samples()
    found = state.exploitation
    if found is not None:
        rcb.exploitation = Exploitation.resumed(
            agent.market,
            agent.plan,
            rcb.oracle,
            options=rcb.options,
            began=found.began,
            epoch=found.epoch,
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
    rcb.cold.gone, agent.moves, agent.heeds = frozenset(state.gone or ()), state.moves or (), bool(state.heeds)
    rcb.cold.predictor = _predictor(state.cold.predictor, agent.market)
    for ticket, part in _tickets(state.pending):
        agent._awaited.pending.issue(ticket, part)
    _restore_late(agent, state)
    if state.log is not None:
        agent._awaited.log = _logbook(state.log, agent.market)


def _tickets(out: Out) -> list[tuple[int, Pending]]:
    parts = zip(out.x, out.arm.tolist(), out.counted.tolist(), out.stage.tolist(), strict=True)
    return [
        (ticket, Pending(x, arm, bool(counted), stage))
        for ticket, (x, arm, counted, stage) in zip(out.ticket.tolist(), parts, strict=True)
    ]


def _restore_late(agent: "Recommender", state: AgentState) -> None:
    late, awaited = state.late, agent._awaited
    awaited.patience, awaited.looked = late.patience, late.looked
    awaited.given_up = {ticket: (stage, arm) for ticket, stage, arm in late.given_up.tolist()}
    awaited.tally.counts[:] = late.tally
    taken, reward = late.taken.tolist(), late.reward.tolist()
    for k, (ticket, part) in enumerate(_tickets(late.early)):
        awaited.early[ticket] = Early(part, taken[k], reward[k])
    for _, part in [*_tickets(state.pending), *_tickets(late.early)]:
        agent._rcb.cold.waiting[part.arm] += part.counted and part.in_cold_start


def _logbook(kept: Kept, market: Market) -> Logbook | None:
    """The log as it was; a file that is gone is not begun anew: a state is data, and does not write where it says."""
    path = Path(str(kept.keep)).expanduser()
    if isinstance(kept.keep, str) and not (path.is_file() and path.stat().st_size):
        warnings.warn(
            f"The log of this recommender, {kept.keep}, is not there: it goes on without one. Put the file back and "
            "load again to go on with it.",
            stacklevel=5,
        )
        return None
    book = Logbook(kept.keep, features=market.features, arms=market.arms, written=kept.written)
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
