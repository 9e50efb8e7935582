"""Worlds of an audit, block by block: what is expected in them, as arrays that travel and are kept.

A block of worlds has random streams of its own, so that it does not matter where, when, or beside which others it is
drawn. What comes of it is a dictionary of arrays with worlds first, and blocks are put together in their order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np

from rcb_bayes.auditing.plan_run import PlanRun
from rcb_bayes.mechanism.epoch_looks import looks_at_random_rounds
from rcb_bayes.mechanism.epoch_worlds import EpochWorlds, begin_exploitation
from rcb_bayes.mechanism.outlook import Outlook
from rcb_bayes.mechanism.simulator import Expected, Key
from rcb_bayes.mechanism.streams import Stream
from rcb_bayes.mechanism.walk import Walk, arms_of
from rcb_bayes.mechanism.worlds import BLOCK, n_blocks_of
from rcb_bayes.schema import FloatArray

if TYPE_CHECKING:
    import xarray as xr

_COMERS = 256  # users of each world's own in a long epoch
Drawn = dict[str, np.ndarray]
"""What is expected in some worlds: ``users`` and ``platform`` (tables, worlds first), ``grams``, ``gamma``, ``epoch``;
and how many posteriors were fitted, and not vouched for, as ``counts``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Worlds that views rest on: those of a stage, by its code, of a level, of a generation of exploitation, by its
    place, or of all of exploitation."""

    kind: Literal["stage", "level", "epochs", "exploitation"]
    number: int
    n_worlds: int

    @property
    def name(self) -> str:
        """Of the files that its blocks are kept in."""
        return f"{self.kind}-{self.number}"

    def n_blocks(self, run: PlanRun) -> int:
        """Blocks that its worlds come in."""
        n = len(run.level_paths(self.number, self.n_worlds).chosen) if self.kind == "level" else self.n_worlds
        return n_blocks_of(n)


def draw(run: PlanRun, task: tuple[Source, int]) -> Drawn:
    """A block of the worlds of a source."""
    source, block = task
    counts = run.simulator.engines.counts
    before = (counts.n_fitted, counts.n_not_vouched)
    make = {"stage": _stage, "level": _level, "epochs": _epochs, "exploitation": _exploitation}[source.kind]
    found = make(run, source, block)
    spent = np.array([[counts.n_fitted - before[0], counts.n_not_vouched - before[1]]])
    return found | {"counts": spent}


def joined(parts: Sequence[Drawn]) -> Drawn:
    """Worlds of all blocks, one after the other."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def as_dataset(drawn: Drawn) -> "xr.Dataset":
    """As it is kept in a file."""
    import xarray as xr

    return xr.Dataset({name: (tuple(f"{name}_{k}" for k in range(part.ndim)), part) for name, part in drawn.items()})


def as_drawn(data: "xr.Dataset") -> Drawn:
    """As it was kept in a file."""
    return {str(name): part.values for name, part in data.data_vars.items()}


# --- the cold start --------------------------------------------------------------------------------------------------


def _stage(run: PlanRun, source: Source, block: int) -> Drawn:
    code, key = source.number, (source.number,)
    chosen = run.simulator.paths_of_worlds(run.stages[code], n_worlds=source.n_worlds, key=key)
    with_law = run.simulator.has_mean_law(source.n_worlds)
    return _expected(run, chosen, level=len(arms_of(code)), key=key, block=block, with_law=with_law)


def _level(run: PlanRun, source: Source, block: int) -> Drawn:
    own = run.level_paths(source.number, source.n_worlds)
    key = (0, source.number)
    return _expected(run, own.there[own.chosen], level=source.number, key=key, block=block, with_law=False)


def _expected(run: PlanRun, chosen: np.ndarray, *, level: int, key: Key, block: int, with_law: bool) -> Drawn:
    (found,) = run.simulator.expected(run.walk, chosen, level=level, key=key, blocks=(block,), with_law=with_law)
    return _named(found.tables) | ({} if found.grams is None else {"grams": found.grams})


def _named(tables: Sequence[FloatArray]) -> Drawn:
    return dict(zip(("users", "platform"), tables, strict=False))


def outlook_of(run: PlanRun, drawn: Drawn, *, code: int | None = None) -> Outlook:
    """What is expected in worlds that were drawn; at a stage with the law of it, where there is one."""
    overlap = None
    if code is not None and "grams" in drawn:
        assert isinstance(run.walk, Walk)  # sets are followed one by one
        overlap = partial(run.walk.overlap, run.stages[code], arms_of(code))
    tables = tuple(drawn[name] for name in ("users", "platform") if name in drawn)
    return run.simulator.outlook_of([Expected(tables=tables, grams=drawn.get("grams"))], overlap=overlap)


class OutlookParts:
    """An outlook in some of its worlds, each part worked out once: what is known of it may take time to work out."""

    def __init__(self, outlook: Outlook) -> None:
        self._outlook = outlook
        self._known: dict[tuple[int | None, int | None], Outlook] = {}

    def in_worlds(self, worlds: slice) -> Outlook:
        """The outlook in some of the worlds."""
        key = (worlds.start, worlds.stop)
        if key not in self._known:
            self._known[key] = self._outlook.in_worlds(worlds)
        return self._known[key]


# --- exploitation ----------------------------------------------------------------------------------------------------


def _begun(run: PlanRun, paths: np.ndarray, source: Source, block: int, *, epoch: int = 0) -> EpochWorlds:
    return begin_exploitation(
        run.simulator,
        run.walk,
        paths,
        mechanism=run.plan,
        options=run.options,
        n_worlds=source.n_worlds,
        purpose=Stream.AUDITED_EPOCHS,
        epoch=epoch,
        rounds=run.begins[-1],
        comers=_COMERS,
        block=block,
    )[0]


def _epochs(run: PlanRun, source: Source, block: int) -> Drawn:
    """Worlds of a generation in each of the epochs in which they are looked at, (w, E, ...)."""
    generation = run.generations[source.number]
    epochs = _begun(run, generation.paths, source, block, epoch=generation.epoch)
    looks = []
    for number, _ in generation.looks:
        epochs.advance_to(number, run.guard_at)
        looks.append(_named(epochs.outlook.tables) | {"gamma": epochs.gamma})
    if any("platform" in look for look in looks):  # which may go by less than all data, from some epoch on
        looks = [{"platform": look["users"]} | look for look in looks]
    return {name: np.stack([look[name] for look in looks], axis=1) for name in looks[0]}


def in_epoch(run: PlanRun, drawn: Drawn, *, generation: int, place: int) -> Drawn:
    """Worlds of a generation in one of its epochs: those in which it begins before the horizon."""
    own = run.generations[generation]
    there = run.in_time(own, own.looks[place][0])
    return {name: part[there, place] for name, part in drawn.items() if name != "counts"}


def _exploitation(run: PlanRun, source: Source, block: int) -> Drawn:
    """Every world in the epoch that a round of its exploitation, drawn at random, falls into."""
    epochs = _begun(run, run.exploiting_paths, source, block)
    rng = run.simulator.rng(Stream.MOMENTS, 1, block)
    n = len(epochs.state.began)
    looks = looks_at_random_rounds(epochs, horizon=run.horizon, guard_at=run.guard_at, rng=rng)
    apart = any(len(look.outlook.tables) > 1 for look in looks)
    found: Drawn = {}
    for look in looks:
        seen = _named(look.outlook.tables)
        seen = ({"platform": seen["users"]} if apart else {}) | seen
        seen |= {"gamma": look.gamma, "epoch": np.full(len(look.worlds), look.epoch)}
        for name, part in seen.items():
            found.setdefault(name, np.zeros((n, *part.shape[1:]), dtype=part.dtype))[look.worlds] = part
    return found


def n_values(run: PlanRun, source: Source) -> int:
    """Numbers that are kept of a source, roughly."""
    k, d = run.market.n_arms, run.market.n_features
    each = k * (d if run.market.noise.is_gaussian else run.simulator.panel.n_users)
    looks = len(run.generations[source.number].looks) if source.kind == "epochs" else 1
    law = k * d * d if source.kind == "stage" and run.simulator.has_mean_law(source.n_worlds) else 0
    return source.n_blocks(run) * BLOCK * (looks * (each + 1) + law)


def without_counts(drawn: Drawn) -> Drawn:
    """What views need."""
    return {name: part for name, part in drawn.items() if name != "counts"}
