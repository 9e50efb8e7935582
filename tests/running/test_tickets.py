"""Tickets: singly and in blocks, the same."""

import numpy as np

from rcb_bayes.running.tickets import Pending, Tickets


def both() -> tuple[Tickets, Tickets]:
    """Twelve tickets, 5 to 16: issued one by one, and partly in two blocks."""
    rng = np.random.default_rng(1)
    users, arms, counted = rng.normal(size=(12, 3)), rng.integers(0, 4, 12), rng.random(12) < 0.5
    stages = rng.integers(0, 4, 12)
    single, mixed = Tickets(), Tickets()
    for k in range(12):
        single.issue(5 + k, Pending(users[k], int(arms[k]), bool(counted[k]), int(stages[k])))
    mixed.issue_many(5, users[:6], arms[:6], counted[:6], stages[:6])
    mixed.issue(11, Pending(users[6], int(arms[6]), bool(counted[6]), int(stages[6])))
    mixed.issue_many(12, users[7:], arms[7:], counted[7:], stages[7:])
    return single, mixed


def known(tickets: Tickets) -> list[tuple]:
    return sorted((k, *part.x.tolist(), *part[1:]) for k, part in tickets.items())


def test_blocks_hold_what_single_tickets_do():
    single, mixed = both()
    assert known(single) == known(mixed)
    assert len(single) == len(mixed) == 12
    for tickets in (single, mixed):
        for gone in (4, 17, -1, "5", 5.5, True, None):
            assert tickets.get(gone) is None
        tickets.hand_in(6)
        tickets.hand_in(11)
        assert tickets.get(6) is None
        assert len(tickets) == 10
    assert known(single) == known(mixed)


def test_many_are_handed_in_at_once():
    single, mixed = both()
    some = np.array([16, 5, 11, 7])
    one, two = single.hand_in_many(some), mixed.hand_in_many(some)
    for ours, theirs in zip(one, two, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert known(single) == known(mixed)
    np.testing.assert_array_equal(mixed.are_out(np.array([5, 6, 11, 12, 99])), [False, True, False, True, False])
    mixed.hand_in_many(np.array([6, 8, 9, 10]))
    assert len(mixed._blocks) == 1  # a block that is all in is forgotten
