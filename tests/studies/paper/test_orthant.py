"""Users without negative features: moments against draws, and the nearest of them."""

import numpy as np
import pytest

from rcb_bayes.studies.paper.orthant import Orthant


@pytest.mark.parametrize("d", [1, 2, 5])
def test_moments_are_those_of_draws(d: int):
    users, n = Orthant(d), 40_000
    x = users.sample(n, seed=1)
    assert users.contains(x).all()
    assert not users.contains(-np.eye(d)[0])
    for found, wanted in ((x, users.mean), (x[:, :, None] * x[:, None], users.second_moment)):
        error = found.std(axis=0, ddof=1) / np.sqrt(n)
        assert (np.abs(found.mean(axis=0) - wanted) <= 4.5 * error + 1e-12).all()
    assert users.phi0 == pytest.approx((1.0 if d == 1 else 1.0 - 2.0 / np.pi) / d)


def test_the_nearest_user():
    users = Orthant(3)
    found = users.project(np.array([[3.0, 4.0, -1.0], [-3.0, -1.0, -2.0]]))
    np.testing.assert_allclose(found, [[0.6, 0.8, 0.0], [0.0, 1.0, 0.0]])
    x = users.sample(2000, seed=2)
    points = np.random.default_rng(3).standard_normal((20, 3))
    nearest = users.project(points)
    apart = np.linalg.norm(points[:, None] - x, axis=2).min(axis=1)
    assert (np.linalg.norm(points - nearest, axis=1) <= apart + 1e-9).all()
