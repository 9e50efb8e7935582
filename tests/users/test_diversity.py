"""Covariate diversity against closed forms and a fine search."""

import numpy as np
import pytest

from rcb_bayes.users import Ball, Empirical, Gaussian, Sphere, Uniform
from rcb_bayes.users.diversity import covariate_diversity


@pytest.mark.parametrize(
    ("users", "constant"),
    [
        (Sphere(4), 1 / 8),
        (Ball(2), 1 / 8),
        (Gaussian(np.diag([1.0, 0.5])), 0.25),
        (Uniform([-1, -2], [1, 2]), 1 / 6),
        (Uniform([0, 0], [1, 1]), 0.0),  # on one side of a plane
        (Empirical([[1.0, 1.0], [1.0, -1.0]]), 0.0),  # an intercept
        (Empirical([[1.0], [-1.0]]), 0.5),
        (Empirical([[1.0], [-1.0]], weights=[3.0, 1.0]), 0.25),  # the rarer side
    ],
    ids=["sphere", "ball", "gaussian", "around zero", "box", "intercept", "two", "rare side"],
)
def test_closed_forms(users, constant: float) -> None:
    assert covariate_diversity(users) == pytest.approx(constant)


def test_the_search_finds_what_a_sweep_of_all_directions_finds() -> None:
    rng = np.random.default_rng(3)
    rows = rng.normal([0.4, 0.1], size=(60, 2))
    angles = np.linspace(0, 2 * np.pi, 20_000)
    least = np.inf
    for direction in np.stack([np.cos(angles), np.sin(angles)], axis=1):
        some = rows[rows @ direction >= 0]
        least = min(least, float(np.linalg.eigvalsh(some.T @ some / len(rows))[0]))
    assert covariate_diversity(Empirical(rows)) == pytest.approx(least, rel=1e-9)
    # Directions at random alone miss it.
    assert least < min(
        np.linalg.eigvalsh(half.T @ half / len(rows))[0]
        for half in (rows[rows @ direction >= 0] for direction in np.eye(2))
    )
