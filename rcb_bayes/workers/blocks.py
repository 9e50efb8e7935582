r"""Worlds in blocks: batches of a second or more, and sums that do not depend on how blocks were batched.

Blocks have a size that depends on the problem alone. How many of them make a batch depends on how long they take and on
how many workers there are, and so does the order in which they end. Arrays are put together in the order of blocks.
Sums are added along the binary tree over the blocks' numbers: node (h, k) stands for blocks :math:`k 2^h` to
:math:`(k + 1) 2^h - 1` and is the sum of nodes (h - 1, 2k) and (h - 1, 2k + 1). A batch sends the few nodes that make
it up, not its blocks, and the same additions take place whatever the batches: the sum is the same to the last bit.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from rcb_bayes.workers.asking import Workers
from rcb_bayes.workers.tasks import Tally, run_tasks

MOST_BATCHES = 1000
_SECONDS = 1.0  # of a batch, or more
_LEAST_SECONDS = 0.05  # of the last ones, which are cut small so that all workers end together
Span = tuple[int, int]
Node = tuple[int, int]  # height, place


def run_blocks[S, R](
    function: Callable[[S, int], R],
    n_blocks: int,
    *,
    make: Callable[[], S],
    workers: Workers = None,
    description: str = "worlds",
    batch: int | None = None,
    tally: Tally | None = None,
) -> list[R]:
    """``function(made, block)`` of every block, in their order; ``batch`` fixes the number of blocks in a task."""
    found: list[Any] = [None] * n_blocks
    for (start, stop), values in _batched(
        _each, function, n_blocks, make=make, workers=workers, description=description, batch=batch, tally=tally
    ):
        found[start:stop] = values
    return found


def sum_blocks[S, R](
    function: Callable[[S, int], R],
    n_blocks: int,
    *,
    make: Callable[[], S],
    workers: Workers = None,
    description: str = "worlds",
    batch: int | None = None,
    tally: Tally | None = None,
) -> R:
    """The sum over blocks of ``function(made, block)``: numbers, arrays, or tuples, lists and dicts of them."""
    total = TreeSum(n_blocks)
    for _, nodes in _batched(
        _summed, function, n_blocks, make=make, workers=workers, description=description, batch=batch, tally=tally
    ):
        total.take(nodes)
    return total.value()


def _batched(
    serve: Callable[..., Any],
    function: Callable[..., Any],
    n_blocks: int,
    *,
    make: Callable[[], Any],
    workers: Workers,
    description: str,
    batch: int | None,
    tally: Tally | None,
) -> Iterator[tuple[Span, Any]]:
    tally = Tally() if tally is None else tally
    sizes = Batches(n_blocks, fixed=batch, tally=tally)
    done = run_tasks(
        partial(serve, function),
        sizes.spans(),
        make=make,
        workers=workers,
        description=description,
        total=n_blocks,
        weigh=_length,
        tally=tally,
    )
    for number, value in done:
        sizes.learn(number)
        yield sizes.given[number], value


def _length(span: Span) -> int:
    return span[1] - span[0]


def _each(function: Callable[..., Any], made: Any, span: Span) -> list[Any]:
    return [function(made, block) for block in range(*span)]


def _summed(function: Callable[..., Any], made: Any, span: Span) -> dict[Node, Any]:
    part = TreeSum(None)
    for block in range(*span):
        part.take({(0, block): function(made, block)})
    return part.nodes


@dataclass(slots=True)
class Batches:
    """How many blocks the next batch has: about a second's work, fewer towards the end, at most a thousand batches."""

    n_blocks: int
    fixed: int | None = None
    tally: Tally = field(default_factory=Tally)
    given: list[Span] = field(default_factory=list)
    per_block: float | None = None

    def spans(self) -> Iterator[Span]:
        """Batches one after the other, sized by what is known when they are asked for."""
        start = 0
        while start < self.n_blocks:
            span = (start, min(self.n_blocks, start + self._size(self.n_blocks - start)))
            self.given.append(span)
            yield span
            start = span[1]

    def learn(self, number: int) -> None:
        """How long the blocks of a batch took."""
        latest = self.tally.seconds / _length(self.given[number])
        # The first of a worker compiles: the least that was seen is what the others will take.
        self.per_block = latest if self.per_block is None else min(self.per_block, latest)

    def _size(self, left: int) -> int:
        least = -(-self.n_blocks // MOST_BATCHES)
        if self.fixed is not None:
            return max(1, self.fixed)
        if self.per_block is None:
            return least
        each = max(self.per_block, 1e-6)
        share = -(-left // (2 * self.tally.n_workers))
        return max(least, min(int(_SECONDS / each) + 1, max(share, int(_LEAST_SECONDS / each) + 1)))


class TreeSum:
    """A sum along the binary tree over block numbers, from nodes that come in any order.

    With a number of blocks, nodes at the right edge of the tree have a left child only, and are that; without one, only
    pairs are added.
    """

    def __init__(self, n_blocks: int | None) -> None:
        self.n_blocks = n_blocks
        self.nodes: dict[Node, Any] = {}

    def take(self, nodes: dict[Node, Any]) -> None:
        """Take in nodes, and add those that have become pairs."""
        for node, value in nodes.items():
            self._settle(node, value)

    def _settle(self, node: Node, value: Any) -> None:
        height, place = node
        while True:
            partner = (height, place ^ 1)
            if partner in self.nodes:
                other = self.nodes.pop(partner)
                value = added(value, other) if place % 2 == 0 else added(other, value)
            elif not self._is_alone(height, place):
                self.nodes[height, place] = value
                return
            height, place = height + 1, place // 2

    def _is_alone(self, height: int, place: int) -> bool:
        """Whether nothing will ever come to the right of a node that is not the root."""
        if self.n_blocks is None or place % 2 or (1 << height) >= self.n_blocks:
            return False
        return ((place + 1) << height) >= self.n_blocks

    def value(self) -> Any:
        """The sum, once all blocks are in."""
        (value,) = self.nodes.values()
        return value


def added(one: Any, other: Any) -> Any:
    """The sum of two values of the same form."""
    if isinstance(one, dict):
        return {name: added(part, other[name]) for name, part in one.items()}
    if isinstance(one, tuple | list):
        return type(one)(added(*pair) for pair in zip(one, other, strict=True))
    return np.add(one, other)
