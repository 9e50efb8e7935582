"""Populations as plans keep them: the same users come back, and tables of people are not written."""

import msgspec
import numpy as np
import pytest

from rcb_bayes.errors import RcbError
from rcb_bayes.users import Ball, Covariates, Empirical, Gaussian, Sphere, Uniform
from rcb_bayes.users.stored import StoredUsers, Whom, restored, stored


@pytest.mark.parametrize(
    "users",
    [
        Sphere(3),
        Ball(2),
        Uniform([0.0, -1.0], [1.0, 2.0]),
        Gaussian([[1.0, 0.3], [0.3, 2.0]], mean=[0.5, 0.1]),
        Gaussian([0.0, 1.0], mean=[1.0, 0.0]),
    ],
    ids=repr,
)
def test_a_population_in_closed_form_comes_back(users: Covariates):
    again = restored(msgspec.convert(stored(Whom(users)), StoredUsers, strict=True)).covariates
    assert type(again) is type(users)
    np.testing.assert_array_equal(again.sample(20, seed=1), users.sample(20, seed=1))


def test_people_and_classes_of_one_s_own_are_not_written():
    class Own(Sphere):
        pass

    assert stored(Whom(Empirical([[1.0, 2.0], [0.0, 1.0]]))) is None
    assert stored(Whom(Own(2))) is None


@pytest.mark.parametrize(
    "found",
    [
        StoredUsers(kind="sphere", n_features=2, numbers=((1.0,),)),
        StoredUsers(kind="uniform", n_features=2, numbers=((0.0, 0.0), (1.0,))),
        StoredUsers(kind="uniform", n_features=2, numbers=((0.0, 2.0), (1.0, 1.0))),
        StoredUsers(kind="gaussian", n_features=2, numbers=((1.0, 0.0, 0.0, -1.0), (0.0, 0.0))),
    ],
)
def test_numbers_that_make_no_population_are_refused(found: StoredUsers):
    with pytest.raises(RcbError):
        restored(found)
