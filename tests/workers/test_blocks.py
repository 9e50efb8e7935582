"""Blocks and batches: sums that do not depend on who added what, batches of a second or more."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rcb_bayes.workers import Tally, TreeSum, run_blocks, sum_blocks
from rcb_bayes.workers.blocks import MOST_BATCHES, Batches, _summed, added
from tests.workers import jobs


def flat(value: dict[str, Any]) -> list[float]:
    array, number = value["sums"]
    return [value["n"], *array.tolist(), number]


def in_batches(n_blocks: int, cuts: list[int], order: list[int]) -> list[float]:
    """The sum, with batches that end at these blocks and come in this order."""
    edges = [0, *sorted({cut for cut in cuts if 0 < cut < n_blocks}), n_blocks]
    spans = list(pairwise(edges))
    total = TreeSum(n_blocks)
    for place in sorted(range(len(spans)), key=lambda k: order[k % len(order)] * 7919 % 104729):
        total.take(_summed(jobs.block, None, spans[place]))
    return flat(total.value())


@given(
    n_blocks=st.integers(1, 70),
    cuts=st.lists(st.integers(1, 69), max_size=12),
    order=st.lists(st.integers(0, 10**6), min_size=1, max_size=20),
)
def test_sums_are_the_same_to_the_last_bit(n_blocks: int, cuts: list[int], order: list[int]) -> None:
    assert in_batches(n_blocks, cuts, order) == in_batches(n_blocks, [], [0])


@pytest.mark.parametrize("n_blocks", [1, 2, 3, 37, 64])
def test_sums_are_sums(n_blocks: int) -> None:
    blocks = [flat(jobs.block(None, k)) for k in range(n_blocks)]
    exact = [math.fsum(column) for column in zip(*blocks, strict=True)]
    np.testing.assert_allclose(in_batches(n_blocks, [5, 9], [3, 1]), exact, rtol=1e-12)
    assert in_batches(n_blocks, [], [0])[0] == n_blocks


def test_adding_up_batches_would_give_other_bits() -> None:
    """The planted error: each batch added up by itself, as one would do it first."""
    found = set()
    for size in (1, 5, 16):
        batches = []
        for start in range(0, 64, size):
            part = jobs.block(None, start)
            for block in range(start + 1, min(64, start + size)):
                part = added(part, jobs.block(None, block))
            batches.append(part)
        total = batches[0]
        for part in batches[1:]:
            total = added(total, part)
        found.add(tuple(flat(total)))
    assert len(found) > 1


@pytest.mark.parametrize("batch", [None, 1, 7])
def test_workers_and_batches_do_not_matter(batch: int | None) -> None:
    here = sum_blocks(jobs.block, 23, make=jobs.three)
    there = sum_blocks(jobs.block, 23, make=jobs.three, workers=2, batch=batch)
    assert flat(here) == flat(there)
    listed = run_blocks(jobs.times, 23, make=jobs.three, workers=2, batch=batch)
    assert listed == [3 * k for k in range(23)]


@pytest.mark.parametrize(("n_blocks", "seconds"), [(1, 1.0), (10, 5.0), (400, 0.01), (5000, 1e-4), (300_000, 1e-7)])
def test_batches_cover_all_blocks_and_are_not_many(n_blocks: int, seconds: float) -> None:
    batches = Batches(n_blocks, tally=Tally(n_workers=2))
    spans = []
    for number, span in enumerate(batches.spans()):
        spans.append(span)
        batches.tally.seconds = seconds * (span[1] - span[0])
        batches.learn(number)
    assert [start for start, _ in spans] == [0, *(stop for _, stop in spans[:-1])]
    assert spans[-1][1] == n_blocks
    assert len(spans) <= MOST_BATCHES
    longest = max(stop - start for start, stop in spans)
    assert longest * seconds <= 2.0 or longest <= -(-n_blocks // MOST_BATCHES)
