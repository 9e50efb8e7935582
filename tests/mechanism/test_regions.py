"""For whom arms are explored: a frequency over draws that are settled, favourites always, ties kept apart."""

from typing import Any

import numpy as np
import pytest

from rcb_bayes.errors import RcbError
from rcb_bayes.mechanism.agenda import Agenda
from rcb_bayes.mechanism.choice import promotion_shares
from rcb_bayes.mechanism.regions import Regions, explored_at

RNG = np.random.default_rng(3)
MEAN = np.array([[0.5, 0.0], [0.3, 0.4], [-0.5, 0.5], [-0.6, -0.6]])
DRAWS = MEAN + 0.3 * RNG.standard_normal((4000, 4, 2))
USERS = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0], [-1.0, 0.0]])


def regions_of(**changed: Any) -> Regions:
    made: dict[str, Any] = {"share": 0.02, "draws": DRAWS, "arms": (0, 1, 2, 3), "stands_for": (0, 1, 2, 3)}
    return Regions(**(made | changed))


def test_an_arm_is_likely_where_it_is_best_often_enough() -> None:
    often = np.stack([np.bincount((DRAWS @ x).argmax(axis=1), minlength=4) / 4000 for x in USERS])
    found = regions_of().likely(USERS, 4)
    assert found[often >= 0.02].all()
    assert not found[often < 0.005].any()
    assert found.any(axis=1).all()
    assert not found.all()
    one_by_one = np.concatenate([regions_of().likely(x[None], 4) for x in USERS])
    np.testing.assert_array_equal(one_by_one, found)


def test_favourites_are_admitted_and_all_others_come_after_them() -> None:
    promoted_by = np.tile([0.1, 0.1, 0.3, 0.2], (4, 1))
    regions = regions_of()
    admitted = regions.admitted(USERS, promoted_by)
    assert admitted[:, 2].all()
    ranked = regions.ranked(promoted_by, admitted)
    for row, is_in in zip(ranked, admitted, strict=True):
        assert is_in.all() or row[is_in].min() > row[~is_in].max()
    np.testing.assert_array_equal(ranked[admitted], promoted_by[admitted])
    again = regions.ranked(ranked, admitted)  # a table of users that is kept has them ranked already
    np.testing.assert_array_equal(np.argsort(again, axis=1), np.argsort(ranked, axis=1))


def test_users_for_whom_nothing_is_left_are_not_explored() -> None:
    regions, promoted_by = regions_of(), USERS @ MEAN.T
    admitted = regions.admitted(USERS, promoted_by)
    ranked = regions.ranked(promoted_by, admitted)
    for open_arms in ([0, 1, 2, 3], [0, 3], [2], [1, 2]):
        asked = explored_at(promotion_shares(ranked, open_arms), admitted)
        assert asked is not None
        np.testing.assert_array_equal(asked, admitted[:, open_arms].any(axis=1))
    assert explored_at(promotion_shares(ranked, [0]), None) is None


def test_an_arm_that_stands_for_another_is_best_where_either_is() -> None:
    alone, both = regions_of(), regions_of(stands_for=(0, 1, 1, 3))
    one, two = alone.likely(USERS, 4), both.likely(USERS, 4)
    assert (two[:, 1] >= one[:, 1] | one[:, 2]).all()
    assert not two[:, 2].any()


def test_arms_that_are_left_out_are_dropped_from_the_draws() -> None:
    kept = np.array([True, True, True, False])
    fewer = regions_of().of_arms(kept, np.array([0, 1, 1, 3]))
    assert fewer.arms == (0, 1, 2)
    assert fewer.stands_for == (0, 1, 1)
    np.testing.assert_array_equal(fewer.draws, DRAWS[:, :3])
    assert fewer.likely(USERS, 4).shape == (4, 4)


def test_they_are_equal_by_what_they_say() -> None:
    assert regions_of() == regions_of(draws=DRAWS.copy())
    assert hash(regions_of()) == hash(regions_of(draws=DRAWS.copy()))
    assert regions_of() != regions_of(share=0.03)
    assert regions_of() != regions_of(draws=DRAWS + 1.0)
    assert regions_of() != 3
    agenda = Agenda(needed=(5,) * 4, regions=regions_of())
    assert agenda.asking(7).regions == agenda.regions


@pytest.mark.parametrize(
    "changed",
    [
        {"share": 0.0},
        {"share": 1.5},
        {"draws": DRAWS[:, :3]},
        {"draws": DRAWS[:0]},
        {"draws": np.full((10, 4, 2), np.nan)},
        {"arms": (0, 1, 2, 2)},
        {"arms": (0, 1, 2, -1), "stands_for": (0, 1, 2, 2)},
        {"stands_for": (0, 1, 2)},
        {"stands_for": (0, 1, 2, 9)},
    ],
)
def test_what_contradicts_itself_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(RcbError):
        regions_of(**changed)
