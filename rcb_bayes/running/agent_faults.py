"""What must hold in a recommender's state: fields together, and with the plan and the market."""

import math
from collections.abc import Iterator

import numpy as np

from rcb_bayes.files.records import LARGEST
from rcb_bayes.market import Market
from rcb_bayes.mechanism.decisions import ROUND_KINDS
from rcb_bayes.mechanism.epoch import epoch_numbered
from rcb_bayes.running.agent_state import AgentState, Epoch, Fitted, Kept, Out, Samples
from rcb_bayes.running.history import CHUNK
from rcb_bayes.running.logbook import columns_of
from rcb_bayes.running.tickets import FATES


def faults_of(state: AgentState, market: Market) -> Iterator[str]:
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
    agenda = state.plan.agenda
    gone = state.gone or ()
    if list(gone) != sorted(set(gone)) or not all(0 <= arm < k for arm in gone) or len(gone) >= k:
        yield "arms that have left do not exist, stand there twice, or are all of them"
    if state.exploitation is not None and not agenda.is_over(saturated) and state.gone is None:
        yield "it exploits though some arms are not saturated"
    history = state.cold.history
    if history is None:
        return
    short = [arm for arm in saturated if _total(history)[arm] < agenda.totals[arm] or not agenda.is_sampled[arm]]
    if short:
        yield f"{state.plan.arms[short[0]]} is saturated without its {agenda.totals[short[0]]:,} samples"
    is_between = state.exploitation is None and 0 < len(saturated) < agenda.n_levels
    if state.gone is None and is_between != (state.cold.predictor is not None):
        yield "what is expected in organic rounds is there if and only if some arms are saturated"


def _epoch_faults(state: AgentState, found: Epoch, market: Market) -> Iterator[str]:
    if not found.began <= state.rounds <= found.ends:
        yield f"round {state.rounds} is not within its epoch, {found.began} to {found.ends}"
    if found.ends != _end_of(state, found, market):
        yield f"epoch {found.epoch} cannot end after round {found.ends}"
    if int(sum(state.counts)) > state.rounds + sum(state.plan.agenda.past):
        yield f"it counts {sum(state.counts)} samples in {state.rounds} rounds"
    if market.noise.is_gaussian and found.predictor is not None and found.predictor.means is None:
        yield "expectations of linear rewards are means"
    yield from _fitted_faults(found.predictor, market)


def _end_of(state: AgentState, found: Epoch, market: Market) -> int:
    """The round after which the epoch ends, by the rule of exploitation itself."""
    began = np.array([float(found.began)])
    by_rule = epoch_numbered(found.epoch, began, market=market, mechanism=state.plan, options=state.options)
    return int(by_rule.ends[0])


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
    if int(counts.sum()) + int(state.pending.counted.sum()) > state.rounds + sum(state.plan.agenda.past):
        yield f"{int(counts.sum())} samples and the tickets that are out are more than {state.rounds} rounds"
    if found is not None and state.gone is None and (counts < state.plan.agenda.missing).any():
        yield "it exploits before every arm has its samples"


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
    if kept.written is not None and kept.written < 0:
        yield "the log has fewer rows than none"
    for row in kept.rows:
        if len(row) != len(columns) or not all(
            isinstance(value, str) if word else value is None or not isinstance(value, str)
            for value, word in zip(row, words, strict=True)
        ):
            yield "a row of the log is no row of this market's"
        ticket, counted = (row[columns.index(name)] for name in ("ticket", "counted"))
        if ticket not in range(state.rounds) or counted not in (0, 1):
            yield "the log has a round that was never served"
