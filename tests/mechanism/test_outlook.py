"""Arms x users x worlds, whatever gives the rewards."""

import numpy as np
import pytest

from rcb_bayes.errors import DataError
from rcb_bayes.mechanism.outlook import (
    LinearOutlook,
    Outlook,
    TableOutlook,
    arms_first,
    distinct_rows,
    own_linear_rewards,
)

RNG = np.random.default_rng(1)
MEANS, OTHERS = RNG.normal(size=(50, 3, 2)), RNG.normal(size=(50, 3, 2))  # (W, K, d)
USERS = RNG.normal(size=(4, 2))


def one_by_one(means: np.ndarray) -> np.ndarray:
    return np.array([[[world[arm] @ user for world in means] for user in USERS] for arm in range(3)])


@pytest.mark.parametrize("kind", ["linear", "table"])
def test_rewards_are_arms_by_users_by_worlds(kind: str) -> None:
    outlook: Outlook = LinearOutlook(MEANS, OTHERS)
    if kind == "table":
        outlook = TableOutlook(USERS, *(USERS @ part.swapaxes(1, 2) for part in (MEANS, OTHERS)))
    assert outlook.n_worlds == 50
    np.testing.assert_allclose(outlook.rewards(USERS), one_by_one(MEANS))
    np.testing.assert_allclose(outlook.acted_on(USERS[1:3]), one_by_one(OTHERS)[:, 1:3])
    assert outlook.rewards(USERS).flags.c_contiguous


def test_users_of_each_world_s_own_stand_in_the_same_order() -> None:
    own = RNG.normal(size=(50, 4, 2))
    found = own_linear_rewards(own, MEANS)
    assert found.shape == (3, 4, 50)
    assert found[2, 1, 7] == pytest.approx(own[7, 1] @ MEANS[7, 2])
    np.testing.assert_allclose(own_linear_rewards(np.broadcast_to(USERS, (50, 4, 2)), MEANS), one_by_one(MEANS))
    np.testing.assert_array_equal(arms_first(found.T), found)


def test_a_user_who_is_not_in_the_table_is_named_as_such() -> None:
    outlook = TableOutlook(USERS, USERS @ MEANS.swapaxes(1, 2))
    with pytest.raises(DataError, match="no rate for a user who is not in the table"):
        outlook.rewards(USERS + 1)


def test_users_who_come_again_are_looked_up_once() -> None:
    rows, places = distinct_rows(USERS[[0, 1, 0, 0]])
    assert len(rows) == 2
    np.testing.assert_array_equal(rows[places], USERS[[0, 1, 0, 0]])
