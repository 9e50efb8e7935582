"""Samples of each arm, each its own, and arms that are admitted one after the other."""

import numpy as np
import pytest

from rcb_bayes.errors import RcbError
from rcb_bayes.mechanism.agenda import Agenda, first_chances, is_popular


def test_arms_without_samples_are_never_open_and_end_nothing() -> None:
    agenda = Agenda(needed=(3, 0, 5))
    assert agenda.n_levels == 2
    assert agenda.open_arms(()) == [0, 2]
    assert agenda.open_arms((0,)) == [2]
    assert agenda.is_over((0, 2))
    assert not agenda.is_over((0,))
    assert agenda.cut is not None
    assert agenda.cut.tolist() == [1.0, 0.0, 1.0]
    assert agenda.n_per_arm == (3, 0, 5)
    assert agenda.words == "5 of 1 arm, 3 of 1, 0 of 1"


def test_samples_from_before_count() -> None:
    agenda = Agenda(needed=(4, 4, 0, 4), past=(4, 1, 2, 0))
    assert agenda.begun == (0, 2)  # one has what it needs, the other asks for nothing and has some
    assert agenda.missing.tolist() == [0, 3, 0, 4]
    assert agenda.totals.tolist() == [4, 4, 2, 4]
    assert agenda.first_level == 2
    assert agenda.n_levels == 4
    assert agenda.open_arms(agenda.begun) == [1, 3]
    assert agenda.cut is None


def test_arms_are_admitted_in_their_order_as_others_fill_up() -> None:
    agenda = Agenda(needed=(2, 2, 2, 2), order=(2, 0, 3, 1), first=2)
    assert agenda.open_arms(()) == [0, 2]
    assert agenda.open_arms((2,)) == [0, 3]
    assert agenda.open_arms((0, 2)) == [1, 3]
    assert agenda.open_arms((0, 1, 2)) == [3]
    assert not agenda.is_plain


def test_other_numbers_of_samples_are_those_of_explored_arms() -> None:
    agenda = Agenda(needed=(3, 0, 5), past=(1, 0, 0))
    assert agenda.asking(7) == Agenda(needed=(7, 0, 7), past=(1, 0, 0))


def test_users_who_like_an_unexplored_arm_best_get_it_unless_sampled() -> None:
    agenda = Agenda(needed=(3, 0, 5))
    expected = np.array([[1.0, 0.0, 0.5], [0.2, 0.9, 0.1], [0.4, 0.4, 0.1]])
    assert is_popular(agenda, expected).tolist() == [True, False, True]
    chances = first_chances(agenda, expected, np.array([1.0, 0.25, 1.0]))
    np.testing.assert_allclose(chances, [[1.0, 0.0, 0.0], [0.25, 0.75, 0.0], [1.0, 0.0, 0.0]])


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"needed": (0, 0)}, "0 for every arm"),
        ({"needed": (1, -1)}, "counts"),
        ({"needed": (1, 1), "past": (1,)}, "counts"),
        ({"needed": (1, 1), "order": (0,), "first": 1}, "every arm that needs samples once"),
        ({"needed": (1, 1), "order": (0, 1), "first": 0}, "begins with one"),
    ],
)
def test_impossible_agendas_are_refused(given: dict, part: str) -> None:
    with pytest.raises(RcbError, match=part):
        Agenda(**given)
