"""How far a plan holds: the radius against closed forms and quadrature, and what cannot be asked."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from scipy.stats import laplace, norm
from scipy.stats import t as student

import rcb_bayes as rcb
from rcb_bayes.auditing.directions import direction_of, everybody_more, favourite
from rcb_bayes.auditing.varied import FORMAT, Sensitivity
from rcb_bayes.belief.families import matched_belief
from rcb_bayes.belief.moving import moved
from rcb_bayes.errors import RcbError
from rcb_bayes.files import write_netcdf
from tests.twins.two_arms import Stage, first_failure, gaussian_margins, grid_margins

ALIKE = rcb.Empirical([[1.0]])
MEANS, N, SIGMA, EPSILON = (0.3, 0.1), 20, 0.6, 0.05
HORIZON = 25  # the cold start takes hundreds of rounds


def _market(prior: rcb.Prior, **others) -> rcb.Market:
    return rcb.Market(prior=prior, covariates=ALIKE, noise=rcb.GaussianNoise(SIGMA), **others)


def _plan(market: rcb.Market, rate: float) -> rcb.Plan:
    return rcb.fixed_plan(market, n_per_arm=N, exploration_rate=rate, epsilon=EPSILON)


def _stage(**changes) -> Stage:
    return replace(Stage(users=MEANS, platform=MEANS, rate=0.04, n=N, sigma=SIGMA), **changes)


def _found(
    market: rcb.Market, along: str, amounts: list[float], *, rate: float = 0.04, seed: int = 1, worlds: int = 1000
):
    plan = _plan(market, rate)
    return rcb.sensitivity(
        market, plan, along=along, amounts={along: amounts}, horizon=HORIZON, n_worlds=worlds, n_runs=0, seed=seed
    )


def _exact(variance: float, along: str, amount: float) -> list[float]:
    """Margins at an amount of a direction, the belief being normal."""
    given = {"variance": variance, "platform_variance": variance}
    if along == "shift:arm_0":
        return _shifted(amount, **given)
    if along == "scale":
        return gaussian_margins(_stage(), **given | {"variance": variance * amount**2})
    assert along == "noise"
    return gaussian_margins(_stage(sigma=SIGMA * amount), **given)


CASES = [
    ("shift:arm_0", [0.0, 0.1, 0.4]),
    ("shift:arm_0", [-0.6, -0.2, 0.0]),
    ("scale", [0.2, 0.6, 1.0]),
    ("noise", [1.0, 3.0, 9.0]),
]


@pytest.mark.parametrize(("along", "amounts"), CASES)
def test_the_radius_of_normal_beliefs_is_that_of_the_closed_form(along: str, amounts: list[float]):
    variance = 0.09
    market = _market(rcb.Prior.gaussian([[m] for m in MEANS], variance))
    found = _found(market, along, amounts)
    base = found["base"].item()
    end = amounts[-1] if amounts[0] == base else amounts[0]
    truth = first_failure(lambda a: _exact(variance, along, a), EPSILON, base=base, end=end)
    side = "above" if end > base else "below"
    estimate, error = found[f"fails_{side}"].item(), found[f"fails_{side}_mcse"].item()
    assert abs(estimate - truth) < 4 * error + 1e-6
    assert error < 0.25 * abs(truth - base)
    if along == "shift:arm_0" and side == "above":  # a planted error: worlds of the belief as it was written down
        given = {"variance": variance, "platform_variance": variance, "drawn": MEANS[0]}
        planted = partial(_shifted, **given)
        assert abs(estimate - first_failure(planted, EPSILON, base=0.0, end=1.0)) > 4 * error


def _shifted(amount: float, **given) -> list[float]:
    return gaussian_margins(_stage(users=(MEANS[0] + amount, MEANS[1])), **given)


def test_epsilon_s_radius_is_the_room_of_the_plan():
    market = _market(rcb.Prior.gaussian([[m] for m in MEANS], 0.09))
    found = _found(market, "epsilon", [0.0, EPSILON], rate=0.2)
    truth = -min(gaussian_margins(_stage(rate=0.2), variance=0.09, platform_variance=0.09))
    assert 0.0 < truth < EPSILON
    assert abs(found["fails_below"].item() - truth) < 4 * found["fails_below_mcse"].item() + 1e-9  # a closed form
    assert found["radius"].item() == pytest.approx(EPSILON - found["fails_below"].item())


def _density(family: str, scale: float):
    sd = 0.3
    return {
        "student_t": lambda b: student.pdf(b, 5.0, MEANS[0], scale * sd * np.sqrt(3 / 5)),
        "laplace": lambda b: laplace.pdf(b, MEANS[0], scale * sd / np.sqrt(2)),
        "mixture": lambda b: (
            (
                norm.pdf(b, MEANS[0] + 0.8 * scale * sd, 0.6 * scale * sd)
                + norm.pdf(b, MEANS[0] - 0.8 * scale * sd, 0.6 * scale * sd)
            )
            / 2
        ),
    }[family]


def _belief(family: str) -> rcb.Prior:
    mean = np.array([[m] for m in MEANS])
    if family == "laplace":
        return rcb.load_prior("laplace", n_arms=2, n_features=1, mean=mean, scale=0.3 / np.sqrt(2))
    return matched_belief(family, mean, 0.09)


@pytest.mark.parametrize(
    "family",
    ["mixture", pytest.param("student_t", marks=pytest.mark.slow), pytest.param("laplace", marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("along", ["shift:arm_0", "scale"])
def test_the_radius_of_other_beliefs_is_that_of_quadrature(family: str, along: str):
    amounts = [0.0, 0.1, 0.4] if along == "shift:arm_0" else [0.2, 0.6, 1.0]
    found = _found(_market(_belief(family)), along, amounts)
    base, platform = found["base"].item(), _density(family, 1.0)

    def margins(amount: float) -> list[float]:
        own = _density(family, 1.0 if along == "shift:arm_0" else amount)
        by = amount if along == "shift:arm_0" else 0.0
        users = (MEANS[0] + by, MEANS[1])
        return grid_margins(_stage(users=users), density=lambda b: own(b - by), platform_density=platform, reach=6.0)

    grid = np.linspace(base, amounts[-1] if base == 0.0 else amounts[0], 25)
    room = np.array([min(margins(a)) + EPSILON for a in grid])
    k = int((room < 0).argmax())
    truth = float(np.interp(0.0, [room[k], room[k - 1]], [grid[k], grid[k - 1]]))
    side = "above" if along == "shift:arm_0" else "below"
    error = found[f"fails_{side}_mcse"].item()
    assert abs(found[f"fails_{side}"].item() - truth) < 4 * error + 1e-3
    normal = first_failure(lambda a: _exact(0.09, along, a), EPSILON, base=base, end=grid[-1])
    if family == "mixture" and along == "shift:arm_0":  # the normal belief's radius is another one
        assert abs(found[f"fails_{side}"].item() - normal) > 4 * error


@pytest.mark.slow
def test_errors_of_radii_are_those_of_replicates():
    market = _market(rcb.Prior.gaussian([[m] for m in MEANS], 0.09))
    found = [_found(market, "shift:arm_0", [0.0, 0.1, 0.4], seed=seed, worlds=500) for seed in range(40)]
    radii = np.array([each["radius"].item() for each in found])
    told = np.sqrt(np.mean([each["radius_mcse"].item() ** 2 for each in found]))
    assert 0.75 < radii.std(ddof=1) / told < 1.33  # 40 replicates know a spread to 11 %
    truth = first_failure(lambda a: _exact(0.09, "shift:arm_0", a), EPSILON, base=0.0, end=0.4)
    assert abs(radii.mean() - truth) < 4 * told / np.sqrt(40)


@pytest.mark.slow
def test_beliefs_outside_fail_their_audit_and_those_inside_do_not():
    market = _market(rcb.Prior.gaussian([[m] for m in MEANS], 0.09))
    plan = _plan(market, 0.04)
    found = _found(market, "shift:arm_0", [0.0, 0.1, 0.4])
    radius, error = found["radius"].item(), found["radius_mcse"].item()
    slope = np.polyfit([0.0, radius], [min(_exact(0.09, "shift:arm_0", a)) for a in (0.0, radius)], 1)[0]
    verdicts = {}
    for side in (-1, 1):
        seen = []
        for seed in range(100):
            # A band of an audit of 1,000 worlds is some three errors wide: planted twice that away.
            at = rcb.audit(market, plan, horizon=HORIZON, n_worlds=1000, seed=1000 + seed)
            band = float(at.margins["mcse"].max())
            amount = radius + side * (6 * band / abs(slope) + 2 * error)
            fonder = replace(market, prior=moved(market.prior, shift=[[amount], [0.0]]))
            seen.append(rcb.audit(fonder, plan, horizon=HORIZON, n_worlds=1000, seed=seed).verdict)
        verdicts[side] = seen
    assert verdicts[1].count("fail") >= 95
    assert verdicts[-1].count("fail") == 0


# --- what is moved ---


def test_what_users_believe_changes_neither_cold_start_nor_regret():
    market = _market(rcb.Prior.gaussian([[m] for m in MEANS], 0.09))
    plan = _plan(market, 0.5)
    found = rcb.sensitivity(
        market,
        plan,
        along=["scale", "noise"],
        amounts={"scale": [0.5, 1.0], "noise": [1.0, 2.0]},
        horizon=100,
        n_worlds=100,
        n_runs=4,
    )
    regret = found["regret"].sel(direction="scale").dropna("amount").values
    assert regret[0] == regret[1] > 0
    assert found["regret"].sel(direction="noise", amount=2.0).item() != regret[0]
    assert (found["status"] == "fails already").all()
    assert found["radius"].isnull().all()
    assert "fails as it is" in found.summary()


def test_a_constant_makes_everybody_expect_more():
    constant = rcb.Market(
        prior=rcb.Prior.gaussian([[0.5, 0.0], [0.0, 0.0]], 0.1),
        covariates=rcb.Empirical([[1.0, -1.0], [1.0, 1.0], [1.0, 0.3]]),
        noise=rcb.GaussianNoise(0.3),
    )
    vector, exact = everybody_more(constant)
    assert exact
    np.testing.assert_allclose(vector, [1.0, 0.0], atol=1e-8)
    assert favourite(constant) == "arm_0"
    vector, exact = everybody_more(replace(constant, covariates=rcb.Sphere(2)))
    assert not exact
    assert np.sqrt(((rcb.Sphere(2).sample(4000, seed=1) @ vector) ** 2).mean()) == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize(
    "name",
    [
        "shift:arm_0",
        "shift:arm_0:feature_0",
        "scale",
        "correlation",
        "noise",
        "N",
        "users",
        "epsilon",
        "knows",
        "family",
    ],
)
def test_at_its_base_a_direction_is_the_market_itself(name: str):
    market = rcb.Market(
        prior=rcb.Prior.gaussian([[0.5], [0.1]], 0.1),
        covariates=rcb.Empirical([[1.0], [2.0]]),
        noise=rcb.GaussianNoise(0.3),
    )
    plan = _plan(market, 0.1)
    direction = direction_of(name, market, plan)
    case = direction.case(direction.base)
    assert case.market is market
    assert case.epsilon == plan.epsilon
    assert case.plan.n_per_arm == plan.n_per_arm
    other = direction.case(next(amount for amount in direction.amounts if amount != direction.base))
    assert other.market.platform_prior is market.platform_prior
    assert other.market.nature is market.nature


def test_correlation_keeps_every_arm_as_it_was():
    market = _market(rcb.Prior.gaussian([[m] for m in MEANS], [0.09, 0.04]))
    direction = direction_of("correlation", market, _plan(market, 0.1))
    for amount in (-0.5, 0.5):
        cov = direction.case(amount).market.prior.covariance.values.reshape(2, 2)
        np.testing.assert_allclose(np.diag(cov), [0.09, 0.04])
        assert cov[0, 1] == pytest.approx(amount * 0.3 * 0.2)


def test_tilted_users_are_weighted():
    users = rcb.Empirical([[1.0, 0.0], [1.0, 1.0]], features=["one", "old"])
    market = rcb.Market(
        prior=rcb.Prior.gaussian([[0.5, 0.1], [0.1, 0.1]], 0.1, features=["one", "old"]),
        covariates=users,
        noise=rcb.GaussianNoise(0.3),
    )
    direction = direction_of("users:old", market, _plan(market, 0.1))
    tilted = direction.case(1.0).market.covariates
    assert isinstance(tilted, rcb.Empirical)
    weights = tilted.weights
    assert weights[1] / weights[0] == pytest.approx(np.exp(2.0))  # two standard deviations apart
    with pytest.raises(RcbError, match="same 'one'"):
        direction_of("users:one", market, _plan(market, 0.1))


# --- what comes of it ---


@pytest.fixture(scope="module")
def small():
    market = _market(rcb.Prior.gaussian([[m] for m in MEANS], 0.09))
    return rcb.sensitivity(
        market,
        _plan(market, 0.04),
        along=["shift:arm_0", "knows"],
        amounts={"shift:arm_0": [0.0, 0.4]},
        horizon=HORIZON,
        n_worlds=200,
        n_runs=2,
    )


def test_it_is_a_dataset_that_tells_and_keeps_itself(small, tmp_path):
    assert small["margin"].dims == ("direction", "amount")
    assert small["radius"].dims == ("direction",)
    assert small["status"].values.tolist() == ["crosses", "no radius"]
    assert "more of arm_0" in small.sentence("shift:arm_0")
    assert "stage" in small.summary().splitlines()[2]
    small.save(tmp_path / "found.nc")
    again = rcb.load_sensitivity(tmp_path / "found.nc")
    assert again.identical(small)
    assert again.summary() == small.summary()
    rows = small.figures()["directions"]
    assert [row["direction"] for row in rows] == ["shift:arm_0", "knows"]
    assert len(rows[1]["amounts"]) == 4
    for key in ("seed", "version", "notion", "epsilon", "engine"):
        assert key in small.attrs


def test_a_damaged_file_is_refused(small, tmp_path):
    path = tmp_path / "found.nc"
    small.save(path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(RcbError, match="digest"):
        rcb.load_sensitivity(path)


def test_figures_can_be_drawn(small):
    assert small.draw().get_title()
    assert small.draw(figure="curves").get_ylabel()
    with pytest.raises(RcbError, match="There is no figure 'tornad'"):
        small.draw(figure="tornad")


@pytest.mark.slow
def test_workers_change_nothing():
    market = _market(rcb.Prior.gaussian([[m] for m in MEANS], 0.09))
    asked = {"along": ["shift:arm_0", "noise"], "horizon": HORIZON, "n_worlds": 100, "n_runs": 2}
    alone, two = (rcb.sensitivity(market, _plan(market, 0.04), workers=w, **asked) for w in (None, 2))
    assert alone.identical(two)


REFUSED = [
    ({"along": ["shfit:arm_0"]}, "Did you mean 'shift:arm_0'"),
    ({"along": ["shift:arm_9"]}, "no arm 'arm_9'"),
    ({"along": ["shift:arm_0:feature_9"]}, "no feature 'feature_9'"),
    ({"along": ["shift"]}, "no direction 'shift'"),
    ({"along": ["noise:arm_0"]}, "no direction 'noise:arm_0'"),
    ({"along": []}, "each once"),
    ({"along": ["noise", "noise"]}, "each once"),
    ({"along": ["noise"], "amounts": {"scale": [2.0]}}, "which along does not name"),
    ({"along": ["noise"], "amounts": {"noise": [-1.0]}}, "between 0 and inf"),
    ({"along": ["scale"], "amounts": {"scale": [0.0]}}, "between"),
    ({"along": ["correlation"], "amounts": {"correlation": [1.5]}}, "between -0.95 and 0.95"),
    ({"along": ["users"]}, "All users are alike"),
    ({"along": ["noise"], "n_worlds": 3}, "n_worlds"),
    ({"along": ["noise"], "least_share": 0.0}, "least_share"),
]


@pytest.mark.parametrize(("asked", "message"), REFUSED)
def test_bad_questions_are_refused_before_anything_is_drawn(asked: dict, message: str):
    market = _market(rcb.Prior.gaussian([[m] for m in MEANS], 0.09))
    with pytest.raises(RcbError, match=message):
        rcb.sensitivity(market, _plan(market, 0.04), **asked)


def test_some_directions_need_a_normal_belief_or_a_known_noise():
    mixed = _market(matched_belief("mixture", np.array([[m] for m in MEANS]), 0.09))
    with pytest.raises(RcbError, match="starts from a Gaussian belief"):
        direction_of("tails", mixed, _plan(mixed, 0.1))
    binary = rcb.Market(
        prior=rcb.Prior.gaussian([[m] for m in MEANS], 0.09), covariates=ALIKE, noise=rcb.BernoulliLogit()
    )
    with pytest.raises(RcbError, match="known sigma"):
        direction_of("noise", binary, _plan(binary, 0.1))
    other = _market(rcb.Prior.gaussian([[0.9], [0.1]], 0.09))
    with pytest.raises(RcbError, match="platform"):
        rcb.sensitivity(other, _plan(mixed, 0.1), along=["noise"])


def _without_one(found: Sensitivity, name: str) -> xr.Dataset:
    return found.drop_vars(name)


RESEALED: list[tuple[str, Callable[[Sensitivity], xr.Dataset]]] = [
    ("no label over", lambda found: _without_one(found, "label")),
    ("no leave_above", lambda found: _without_one(found, "leave_above")),
    ("no margin over", lambda found: found.assign(margin=found["margin"].astype(str))),
    ("no base over", lambda found: found.assign(base=("amount", np.zeros(found.sizes["amount"])))),
    ("its verdict are pass", lambda found: found.assign(verdict=xr.full_like(found["verdict"], "odd"))),
    ("its unit are add", lambda found: found.assign(unit=xr.full_like(found["unit"], "odd"))),
    ("not looked at as the plan is", lambda found: found.assign(base=found["base"] + 0.01)),
    ("amounts increase", lambda found: found.isel(amount=slice(None, None, -1))),
    ("an error is negative", lambda found: found.assign(margin_mcse=found["margin_mcse"] - 1.0)),
    ("not say its notion and belief", lambda found: found.assign_attrs(notion=3)),
    ("epsilon is not negative", lambda found: found.assign_attrs(epsilon="much")),
    ("epsilon is not negative", lambda found: found.assign_attrs(epsilon=-0.1)),
]


def test_files_that_cannot_be_told_are_refused_whoever_sealed_them(tmp_path: Path):
    found = _found(_market(rcb.Prior.gaussian([[m] for m in MEANS], 0.09)), "noise", [1.0, 3.0], worlds=100)
    found.save(tmp_path / "own.nc")
    assert rcb.load_sensitivity(tmp_path / "own.nc").summary() == found.summary()
    for message, change in RESEALED:
        write_netcdf(FORMAT, change(found), tmp_path / "other.nc")
        with pytest.raises(RcbError, match=f"Cannot read a sensitivity from .*{message}"):
            rcb.load_sensitivity(tmp_path / "other.nc")
