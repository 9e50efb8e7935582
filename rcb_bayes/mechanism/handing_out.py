"""Posteriors that take long, fitted by workers and kept: data sets in pieces, answers put together in their order.

Posteriors by NUTS take tens of milliseconds each, others a tenth of one: only what takes long is worth sending. A piece
has a size that depends on the engine alone, and its answer on its data alone, so that it does not matter who fits it:
the first pieces are fitted here, and what is left is handed out once they have shown to take long.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes.files.store import Store, part_file, part_format, read_part, write_part
from rcb_bayes.posterior import Engine
from rcb_bayes.posterior.data import Data
from rcb_bayes.posterior.engines import fit_arms
from rcb_bayes.posterior.results import PosteriorBatch
from rcb_bayes.schema import FloatArray
from rcb_bayes.workers import Workers, run_tasks

if TYPE_CHECKING:
    import xarray as xr

_CHAINS = "nuts"
_PIECE = 32  # data sets, where each has chains of its own; others are fitted as many at a time as they come
_WORTH_SENDING = 5.0  # seconds, for all that is left
_WORTH_KEEPING = 0.5  # seconds, for a piece


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOut:
    """Who fits posteriors that take long, and where they are kept."""

    workers: Workers = None
    store: Store = field(default_factory=lambda: Store(folder=None))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    data: Data
    how: str  # "fit", "covariance" or "arms"
    users: FloatArray | None


class HandedOutEngine:
    """An engine whose data sets are fitted in pieces, here or by workers, who ``make`` one like it."""

    def __init__(self, engine: Engine, make: Callable[[], Engine], *, hand_out: HandOut) -> None:
        self._engine, self._make = engine, make
        self.prior, self.name, self.reason = engine.prior, engine.name, engine.reason
        self._hand_out, self._is_warm = hand_out, False

    def fit(self, data: Data, *, covariance: bool = False, users: FloatArray | None = None) -> PosteriorBatch:
        """Posterior moments of every data set."""
        return self._fitted(data, "covariance" if covariance else "fit", users)

    def fit_arms(self, data: Data) -> PosteriorBatch:
        """Posterior means and covariances arm by arm."""
        return self._fitted(data, "arms", None)

    def fit_blocks(self, blocks: Sequence[Data], *, users: FloatArray | None = None) -> list[PosteriorBatch]:
        """Posterior means of every data set, block by block."""
        pieces = [self._pieces(_Task(data=data, how="fit", users=users)) for data in blocks]
        found = iter(self._answers([piece for own in pieces for piece in own]))
        return [joined_batches([next(found) for _ in own]) for own in pieces]

    def draw(self, data: Data, n: int, *, rng: np.random.Generator) -> FloatArray:
        """n posterior draws of beta for every data set, (M, n, K, d)."""
        return self._engine.draw(data, n, rng=rng)

    def _fitted(self, data: Data, how: str, users: FloatArray | None) -> PosteriorBatch:
        return joined_batches(self._answers(self._pieces(_Task(data=data, how=how, users=users))))

    def _pieces(self, task: _Task) -> list[_Task]:
        n = task.data.n_sets
        own_users = task.users is not None and task.users.ndim == 3
        if self.name != _CHAINS or n <= _PIECE or own_users:
            return [task]
        starts = range(0, n, _PIECE)
        return [_Task(data=task.data.take(slice(k, k + _PIECE)), how=task.how, users=task.users) for k in starts]

    def _answers(self, tasks: list[_Task]) -> list[PosteriorBatch]:
        """Answers to all, in their order: kept ones, then some here, and the rest elsewhere if that takes long."""
        store = self._hand_out.store
        names = [_name(task) if store.folder is not None else "" for task in tasks]
        found: dict[int, PosteriorBatch] = {}
        for k, name in enumerate(names):
            if store.folder is not None and store.has(part_file(name)):
                found[k] = _as_batch(read_part(part_format(name), store.folder / part_file(name)))
        left = [k for k in range(len(tasks)) if k not in found]
        while left:
            place, start = left[0], time.perf_counter()
            found[place] = _fit(self._engine, tasks[place])
            seconds = time.perf_counter() - start
            self._note(names[place], found[place], seconds)
            left = left[1:]
            known, self._is_warm = self._is_warm, True  # the first time, compiling takes most of it
            if known and self._hand_out.workers not in (None, 1) and seconds * len(left) > _WORTH_SENDING:
                break
        todo = [tasks[k] for k in left]
        how: dict[str, Any] = {"workers": self._hand_out.workers, "description": "posteriors"}
        for number, batch in run_tasks(_fit, todo, make=self._make, **how) if todo else ():
            found[left[number]] = batch
            self._note(names[left[number]], batch, np.inf)
        return [found[k] for k in range(len(tasks))]

    def _note(self, name: str, batch: PosteriorBatch, seconds: float) -> None:
        """Keep what took long."""
        if self._hand_out.store.folder is not None and seconds > _WORTH_KEEPING:
            self._hand_out.store.keep(part_file(name), batch, save=partial(_save, name))


def _fit(engine: Engine, task: _Task) -> PosteriorBatch:
    if task.how == "arms":
        return fit_arms(engine, task.data)
    return engine.fit(task.data, covariance=task.how == "covariance", users=task.users)


def joined_batches(parts: Sequence[PosteriorBatch]) -> PosteriorBatch:
    """All data sets, one after the other."""
    if len(parts) == 1:
        return parts[0]
    names = dict.fromkeys(name for part in parts for name in part.diagnostics)
    return PosteriorBatch(
        mean=np.concatenate([part.mean for part in parts]),
        covariance=_joined([part.covariance for part in parts]),
        vouched=np.concatenate([part.vouched for part in parts]),
        engine=np.concatenate([part.engine for part in parts]),
        diagnostics={
            name: np.concatenate([part.diagnostics.get(name, np.full(part.n_sets, np.nan)) for part in parts])
            for name in names
        },
        n_sent=sum(part.n_sent for part in parts),
        reason=parts[0].reason,
        reward=_joined([part.reward for part in parts]),
        reward_variance=_joined([part.reward_variance for part in parts]),
    )


def _joined(parts: Sequence[FloatArray | None]) -> FloatArray | None:
    there = [part for part in parts if part is not None]
    return np.concatenate(there) if len(there) == len(parts) else None


# --- kept ------------------------------------------------------------------------------------------------------------


def digest(data: Data, *others: object) -> str:
    """What tells data, and what is asked of them, from all others: all their digits."""
    found = blake2b(digest_size=16)
    for part in (*(getattr(data, item.name) for item in fields(data)), *others):
        values = np.asarray([] if part is None else part)
        found.update(f"{values.shape}{values.dtype}".encode())
        found.update(np.ascontiguousarray(values))
    return found.hexdigest()


def _name(task: _Task) -> str:
    return f"posteriors-{task.how}-{digest(task.data, task.users)}"


_PARTS = ("mean", "covariance", "vouched", "reward", "reward_variance")


def _save(name: str, batch: PosteriorBatch, path: Path) -> None:
    write_part(part_format(name), _as_dataset(batch), path)


def _as_dataset(batch: PosteriorBatch) -> "xr.Dataset":
    import xarray as xr

    parts = {part: getattr(batch, part) for part in _PARTS} | {f"of {k}": v for k, v in batch.diagnostics.items()}
    there: dict[str, Any] = {
        part: (tuple(f"{part}_{axis}" for axis in range(values.ndim)), values)
        for part, values in parts.items()
        if values is not None
    }
    there["engine"] = ("engine_0", batch.engine.astype(str))
    return xr.Dataset(there, attrs={"n_sent": batch.n_sent, "reason": batch.reason})


def _as_batch(data: "xr.Dataset") -> PosteriorBatch:
    parts = {part: data[part].values if part in data else None for part in _PARTS}
    diagnostics = {str(name)[3:]: part.values for name, part in data.data_vars.items() if str(name).startswith("of ")}
    parts["vouched"] = np.asarray(parts["vouched"], dtype=bool)
    return PosteriorBatch(
        **parts,  # pyright: ignore[reportArgumentType]
        engine=data["engine"].values.astype(object),
        diagnostics=diagnostics,
        n_sent=int(data.attrs["n_sent"]),
        reason=str(data.attrs["reason"]),
    )
