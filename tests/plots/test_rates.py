"""The map of rates: where users are drawn, in which colours, and what its axes are called."""

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rcb_bayes.auditing.calibration import calibrate
from rcb_bayes.belief import Prior
from rcb_bayes.errors import DataError, RcbError
from rcb_bayes.market import Market
from rcb_bayes.market.noise import GaussianNoise
from rcb_bayes.planning.plan import Plan
from rcb_bayes.plots import plot_rates
from rcb_bayes.users import Sphere
from tests.plots.drawing import save


@cache
def plan_of(n_features: int, *, personalised: bool = True) -> Plan:
    """Users' features count alike for the old arm and not at all for the others."""
    prior = Prior.gaussian(
        np.vstack([np.ones(n_features), np.zeros((2, n_features))]),
        0.02,
        arms=["old", "new", "odd"],
        features=["age", "dose", "sex", "size"][:n_features],
    )
    market = Market(prior=prior, covariates=Sphere(n_features), noise=GaussianNoise(0.5))
    return calibrate(market, personalised=personalised, n_per_arm=20, n_worlds=200, audit_worlds=500, seed=1)


def users_of(spreads: tuple[float, ...], n: int = 300) -> np.ndarray:
    """Users with an exact covariance matrix, the squares of these spreads on its diagonal."""
    rows = np.random.default_rng(2).standard_normal((n, len(spreads)))
    rows = np.linalg.qr(rows - rows.mean(axis=0))[0] * np.sqrt(n)
    return rows * np.array(spreads) + 0.3


def points_of(axes: Axes) -> tuple[np.ndarray, np.ndarray]:
    """Places and colours of the coloured points, which are drawn last."""
    drawn = axes.collections[-1]
    return np.asarray(drawn.get_offsets()), np.asarray(drawn.get_array())


def colour_label(axes: Axes) -> str:
    figure = axes.figure
    assert isinstance(figure, Figure)
    (bar,) = (other for other in figure.axes if other is not axes)
    return bar.get_ylabel()


def test_rates_are_drawn_over_the_features_that_vary_most(tmp_path: Path) -> None:
    plan, users = plan_of(3), users_of((1.0, 0.1, 3.0))
    axes = plot_rates(plan, users, saturated=["old"])
    places, colours = points_of(axes)
    rates = plan.rate(users, saturated=["old"])
    explored = rates > 0
    assert 0 < explored.sum() < len(users)
    np.testing.assert_allclose(places, users[explored][:, [2, 0]], atol=1e-8)
    np.testing.assert_array_equal(colours, rates[explored])
    assert (axes.get_xlabel(), axes.get_ylabel()) == (
        "sex (89.9 % of the variance)",
        "age (10.0 % of the variance)",
    )
    np.testing.assert_allclose(np.asarray(axes.collections[0].get_offsets()), users[~explored][:, [2, 0]], atol=1e-8)
    legend = axes.get_legend()
    assert legend is not None
    assert legend.get_texts()[0].get_text() == f"never explored ({100 * (~explored).mean():.1f} %)"
    assert colour_label(axes) == "exploration rate q(x)"
    assert axes.collections[-1].get_clim() == (0.0, 1.0)
    save(axes, tmp_path)


def test_a_mixed_direction_names_its_features() -> None:
    turn = np.array([[0.8, 0.6], [-0.6, 0.8]])
    axes = plot_rates(plan_of(2), users_of((3.0, 1.0)) @ turn)
    assert axes.get_title() == "Exploration rate of each user, averaged over stages"
    assert axes.get_xlabel() == "0.8 age + 0.6 dose (where users vary most, 90.0 % of the variance)"
    assert axes.get_ylabel() == "0.8 dose - 0.6 age (where they vary next, 10.0 % of the variance)"


def test_directions_that_cannot_be_told_apart_are_turned_to_the_rate() -> None:
    plan, users = plan_of(4), Sphere(4).sample(1000, seed=3)
    axes = plot_rates(plan, users)
    places, colours = points_of(axes)
    explored = users[plan.rate(users) > 0]
    assert re.fullmatch(r"[\w .+-]+ \(where the rate changes most, 2\d\.\d % of the variance\)", axes.get_xlabel())
    assert axes.get_ylabel().partition("(")[2].startswith("across it, 2")
    # By symmetry the rate depends on the sum of the features.
    assert abs(np.corrcoef(places[:, 0], explored.sum(axis=1))[0, 1]) > 0.95
    assert abs(np.corrcoef(places[:, 1], explored.sum(axis=1))[0, 1]) < 0.3
    assert len(colours) == len(explored)


@pytest.mark.parametrize(
    ("saturated", "title"),
    [
        (["old"], "once old is saturated"),
        ("old", "once old is saturated"),
        (["old", "odd"], "once old, odd are saturated"),
        ([], "before any arm is saturated"),
    ],
)
def test_a_stage_may_be_chosen(saturated: Any, title: str) -> None:
    plan, users = plan_of(2), users_of((3.0, 1.0))
    axes = plot_rates(plan, users, saturated=saturated)
    rates = plan.rate(users, saturated=saturated)
    np.testing.assert_array_equal(points_of(axes)[1], rates[rates > 0])
    assert axes.get_title() == f"Exploration rate of each user {title}"


def test_one_feature_is_drawn_against_the_rate(tmp_path: Path) -> None:
    plan, users = plan_of(1), np.linspace(-1, 1, 50)[:, None]
    axes = plot_rates(plan, users)
    np.testing.assert_allclose(points_of(axes)[0], np.column_stack([users[:, 0], plan.rate(users)]))
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("age", "exploration rate q(x)")
    save(axes, tmp_path)


def test_users_that_vary_in_one_feature_are_drawn_against_it(tmp_path: Path) -> None:
    users = np.column_stack([np.full(50, 0.1), np.linspace(-1, 1, 50)])
    axes = plot_rates(plan_of(2), users)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("dose (100.0 % of the variance)", "exploration rate q(x)")
    save(axes, tmp_path)


@pytest.mark.parametrize("n_users", [1, 2, 3, 7])
def test_few_users_or_all_alike_can_be_drawn(n_users: int, tmp_path: Path) -> None:
    save(plot_rates(plan_of(4), np.eye(4)[np.arange(n_users) % 4]), tmp_path)
    axes = plot_rates(plan_of(4), np.full((n_users, 4), 0.1))
    assert "variance" not in axes.get_xlabel()
    save(axes, tmp_path)


def test_a_uniform_plan_has_one_colour(tmp_path: Path) -> None:
    plan = plan_of(2, personalised=False)
    axes = plot_rates(plan, users_of((3.0, 1.0)))
    assert axes.get_title() == f"One exploration rate for all users: {plan.exploration_rate:.3g}"
    assert len(set(points_of(axes)[1].tolist())) <= 1
    save(axes, tmp_path)


def test_axes_of_the_map_may_be_given() -> None:
    given = Figure().subplots()
    assert plot_rates(plan_of(2), users_of((3.0, 1.0)), axes=given) is given


@pytest.mark.parametrize(
    ("users", "saturated", "error", "message"),
    [
        (np.zeros((3, 5)), None, DataError, "users must have 2 features, got 5"),
        (np.zeros(2), None, DataError, "users"),
        (np.zeros((0, 2)), None, DataError, "no users to draw"),
        ([[0.0, np.nan]], None, DataError, "users"),
        (np.zeros((3, 2)), ["odl"], RcbError, "There is no arm 'odl'. Did you mean 'old'?"),
    ],
)
def test_bad_users_and_arms_are_refused(users: Any, saturated: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        plot_rates(plan_of(2), users, saturated=saturated)
    assert message in str(caught.value)
