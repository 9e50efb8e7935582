"""Values in memory that workers look into: the same values, nobody else's copy changed, bytes where that cannot be."""

import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rcb_bayes.workers import Tally, parcels, run_tasks, tasks
from rcb_bayes.workers.parcels import Hidden, Shared, opened, shared
from tests.workers import jobs

needs_linux = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="no memory without a name here")


def value() -> dict[str, Any]:
    rng = np.random.default_rng(1)
    many = rng.standard_normal((300, 7))
    empty, turned, some = np.zeros((0, 3)), np.asfortranarray(many), many[::2, 1:]
    return {"many": many, "empty": empty, "turned": turned, "some": some, "words": ["a", 1.5, None], "flag": many > 0}


def assert_equal(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert one.keys() == other.keys()
    for name, part in one.items():
        np.testing.assert_array_equal(part, other[name])


@needs_linux
def test_what_is_looked_into_is_what_was_put_there() -> None:
    parcel = shared(value())
    assert parcel is not None
    found = opened(parcel.told)
    assert_equal(found, value())
    found["many"][:] = 0.0  # in a copy of one's own
    assert_equal(opened(parcel.told), value())
    assert_equal(found | {"many": value()["many"]}, value())


@needs_linux
def test_it_is_gone_with_its_parcel_and_what_was_opened_stays() -> None:
    parcel = shared(value())
    assert parcel is not None
    told, found = parcel.told, opened(parcel.told)
    del parcel
    with pytest.raises(Hidden):
        opened(told)
    assert_equal(found, value())


def test_without_such_memory_bytes_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create", raising=False)
    assert shared(value()) is None
    assert sums(workers=2) == sums()


@needs_linux
def test_a_worker_that_cannot_look_there_is_sent_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    told = Shared(data=b"", path="/proc/self/fd/987654", spans=(), size=1)
    monkeypatch.setattr(parcels.Parcel, "told", property(lambda self: told, lambda self, value: None), raising=False)
    assert sums(workers=2) == sums()


@needs_linux
def test_a_full_memory_is_not_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "truncate", fails)
    before = len(os.listdir("/proc/self/fd"))
    assert shared(value()) is None
    assert len(os.listdir("/proc/self/fd")) == before


@needs_linux
def test_large_answers_are_looked_at_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []

    def noted(part: bytes | Shared) -> Any:
        looked.append(part.size if isinstance(part, Shared) else 0)
        return opened(part)

    monkeypatch.setattr(tasks, "opened", noted)
    large, small = 2**19, 5
    found = dict(run_tasks(jobs.ramp, [large, small, large, large], make=jobs.three, workers=2))
    assert looked == [8 * large] * 3
    for number, size in enumerate([large, small, large, large]):
        np.testing.assert_array_equal(found[number], 3.0 * np.arange(size))
    found[0][:] = 1.0  # it is nobody else's
    assert found[2][1] == 3.0


@needs_linux
def test_an_answer_whose_worker_died_before_anybody_looked_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    lost: list[int] = []

    def gone(part: bytes | Shared) -> Any:
        if not lost:
            lost.append(1)
            raise Hidden
        return opened(part)

    monkeypatch.setattr(tasks, "opened", gone)
    tally = Tally()
    found = dict(run_tasks(jobs.ramp, [2**19] * 4, make=jobs.three, workers=2, tally=tally))
    assert tally.n_repeated == 1
    assert {number: float(ramp[-1]) for number, ramp in found.items()} == dict.fromkeys(range(4), 3.0 * (2**19 - 1))


def test_what_tasks_are_about_goes_to_one_worker_each(tmp_path: Path) -> None:
    """Three things and three tasks of each, two workers: nothing goes to both but what is left at the end."""
    given = [np.full(5, float(n)) for n in range(4)]
    tasks = [(n, place) for n in range(4) for place in range(3)]
    make = partial(jobs.counted, str(tmp_path))
    found = dict(run_tasks(jobs.told_by, tasks, make=make, given=lambda task: given[task[0]], workers=2))
    assert [found[number][1] for number in range(12)] == [float(n) for n, _ in tasks]
    who = [{found[3 * n + place][0] for place in range(3)} for n in range(4)]
    assert sum(len(some) > 1 for some in who) <= 1


def sums(workers: int | None = None) -> list[float]:
    """Tasks about arrays."""
    given = [np.random.default_rng(seed).standard_normal((50, 3)) for seed in range(3)]
    tasks = [(n, arm) for n in range(3) for arm in range(3)]
    found = dict(run_tasks(jobs.mean_of, tasks, make=jobs.three, given=lambda task: given[task[0]], workers=workers))
    return [found[number] for number in range(9)]
