"""Statistics drawn from their own laws have the law of sums over explicit rows; seeds, blocks and streams."""

from collections.abc import Callable

import numpy as np
import pytest

from rcb_bayes.belief import Prior, load_prior
from rcb_bayes.market import Market
from rcb_bayes.market.noise import BernoulliLogit, GaussianNoise
from rcb_bayes.mechanism import worlds as module
from rcb_bayes.mechanism.worlds import (
    BLOCK,
    Worlds,
    block_seeds,
    draw_rewards,
    draw_worlds,
    sample_grams,
    simulate_data,
    triangular_root,
)
from rcb_bayes.posterior import Rows, Statistics
from rcb_bayes.schema import FloatArray
from rcb_bayes.users import Ball, Covariates, Empirical, Gaussian, Sphere, Uniform

W = 15_000
SIGMA = 0.7
LIMIT = 5.0  # of the largest of some thirty z-scores
DUMMIES = np.array([[1.0, 1.0, 0.0], [1.0, 0.0, 1.0], [1.0, 0.0, 1.0]])  # intercept = female + male: rank 2
TABLE = np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 0.0], [2.0, 2.0]])


def market_of(
    covariates: Covariates, *, n_arms: int = 2, noise: GaussianNoise | BernoulliLogit | None = None
) -> Market:
    prior = Prior.gaussian(np.zeros((n_arms, covariates.n_features)), 1.0)
    return Market(prior=prior, covariates=covariates, noise=noise or GaussianNoise(SIGMA))


def fixed_worlds(d: int, *, sigma: FloatArray | None = None, n_arms: int = 2, n: int = W) -> Worlds:
    """Worlds of the same coefficients, so that all that varies is the data."""
    beta = np.linspace(-0.8, 1.0, n_arms * d).reshape(n_arms, d)
    return Worlds(beta=np.broadcast_to(beta, (n, n_arms, d)), sigma=sigma)


def explicit_statistics(
    worlds: Worlds, covariates: Covariates, *, arm: int, n: int, sigma: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """What ``flat`` makes of n rows a world, drawn one by one."""
    x = covariates.sample(worlds.n_worlds * n, seed=rng).reshape(worlds.n_worlds, n, -1)
    noise = sigma[:, None] * rng.standard_normal((worlds.n_worlds, n))
    y = np.einsum("wnd,wd->wn", x, worlds.beta[:, arm]) + noise
    return flat(np.einsum("wni,wnj->wij", x, x), np.einsum("wni,wn->wi", x, y), (y**2).sum(axis=1))


def flat(xtx: FloatArray, xty: FloatArray, yty: FloatArray) -> FloatArray:
    """X'X, X'y, y'y and, which shows the degrees of freedom best, the residual sum of squares: a row a world."""
    upper = np.triu_indices(xtx.shape[-1])
    explained = np.einsum("wi,wij,wj->w", xty, np.linalg.pinv(xtx, rcond=1e-10, hermitian=True), xty)
    return np.column_stack([xtx[:, upper[0], upper[1]], xty, yty, np.round(yty - explained, 3)])


def of_arm(data: Statistics | Rows, arm: int, *, mistake: str = "") -> FloatArray:
    """What ``flat`` makes of an arm's statistics, with a mistake planted in them."""
    assert isinstance(data, Statistics)
    xtx, xty, yty = data.xtx[:, arm], data.xty[:, arm], data.yty[:, arm]
    rng = np.random.default_rng(5)
    if mistake == "one degree of freedom too many":
        yty = yty + SIGMA**2 * rng.chisquare(1, size=len(yty))
    elif mistake == "noise of y'y not that of X'y":
        yty = rng.permutation(yty)
    elif mistake == "3 % more in X'y":
        xty = 1.03 * xty
    elif mistake == "X'X of another sample":
        xtx = rng.permutation(xtx, axis=0)
    return flat(xtx, xty, yty)


def worst_z(first: FloatArray, second: FloatArray) -> float:
    """The largest z-score between two samples' means and (co)variances; constants must agree up to rounding."""
    pooled = np.concatenate([first, second])
    centre, scale = pooled.mean(axis=0), pooled.std(axis=0)
    random = scale > 1e-6 * np.maximum(np.abs(centre), 1.0)
    np.testing.assert_allclose(first[:, ~random], second[:, ~random], rtol=1e-5, atol=1e-5)
    i, j = np.triu_indices(int(random.sum()))

    def moments(sample: FloatArray) -> FloatArray:
        scaled = (sample[:, random] - centre[random]) / scale[random]
        return np.concatenate([scaled, scaled[:, i] * scaled[:, j]], axis=1)

    one, two = moments(first), moments(second)
    error = np.sqrt(one.var(axis=0) / len(one) + two.var(axis=0) / len(two))
    difference = np.abs(one.mean(axis=0) - two.mean(axis=0))
    return float((difference / np.maximum(error, 1e-12))[difference > 1e-9].max(initial=0.0))


# --- statistics against rows -----------------------------------------------------------------------------------------

CASES: dict[str, tuple[Callable[[], Covariates], int]] = {
    "sphere, n < d": (lambda: Sphere(3), 2),
    "sphere, n = 1": (lambda: Sphere(2), 1),
    "sphere, n = d": (lambda: Sphere(2), 2),
    "sphere, n >> d": (lambda: Sphere(2), 40),
    "sphere, d = 1": (lambda: Sphere(1), 3),
    "ball": (lambda: Ball(2), 7),
    "uniform": (lambda: Uniform([0.0, -1.0], [1.0, 0.5]), 5),
    "gaussian, n < d": (lambda: Gaussian([1.0, 0.4, 2.0], mean=[0.5, 0.0, 0.0]), 2),
    "gaussian, n = d": (lambda: Gaussian([[1.0, 0.3], [0.3, 0.5]]), 2),
    "gaussian, n = d + 1": (lambda: Gaussian([[1.0, 0.3], [0.3, 0.5]], mean=[0.4, -1.0]), 3),
    "gaussian, n >> d": (lambda: Gaussian([[1.0, 0.3], [0.3, 0.5]], mean=[0.4, -1.0]), 40),
    "gaussian, centred": (lambda: Gaussian([[1.0, -0.6], [-0.6, 0.5]]), 12),
    "gaussian, intercept": (lambda: Gaussian([0.0, 0.4], mean=[1.0, 0.3]), 9),
    "table, few rows drawn": (lambda: Empirical(TABLE, weights=[1, 2, 0, 5]), 3),
    "table, many rows drawn": (lambda: Empirical(TABLE, weights=[1, 2, 0, 5]), 30),
    "dummies, n = d": (lambda: Empirical(DUMMIES), 3),
    "dummies, n >> d": (lambda: Empirical(DUMMIES), 20),
    "one row": (lambda: Empirical([[1.0]]), 6),
}


@pytest.mark.parametrize("name", CASES)
def test_statistics_have_the_law_of_sums_over_rows(name: str) -> None:
    build, n = CASES[name]
    users = build()
    worlds = fixed_worlds(users.n_features)
    data = simulate_data(worlds, market_of(users), n_per_arm=np.array([0.0, n]), rng=np.random.default_rng(1))
    rows = explicit_statistics(
        worlds, users, arm=1, n=n, sigma=np.full(W, SIGMA), rng=np.random.default_rng([2, len(name)])
    )
    assert worst_z(of_arm(data, 1), rows) < LIMIT
    assert isinstance(data, Statistics)
    assert not data.xtx[:, 0].any()
    assert not data.yty[:, 0].any()
    np.testing.assert_array_equal(data.n, np.broadcast_to([0.0, n], (W, 2)))


@pytest.mark.parametrize(
    "mistake",
    [
        "one degree of freedom too many",
        "noise of y'y not that of X'y",
        "3 % more in X'y",
        "X'X of another sample",
    ],
)
@pytest.mark.parametrize("name", ["sphere, n >> d", "gaussian, n >> d", "dummies, n >> d"])
def test_a_planted_mistake_in_the_statistics_is_found(name: str, mistake: str) -> None:
    build, n = CASES[name]
    users = build()
    worlds = fixed_worlds(users.n_features)
    data = simulate_data(worlds, market_of(users), n_per_arm=np.array([0.0, n]), rng=np.random.default_rng(1))
    rows = explicit_statistics(worlds, users, arm=1, n=n, sigma=np.full(W, SIGMA), rng=np.random.default_rng(2))
    assert worst_z(of_arm(data, 1, mistake=mistake), rows) > LIMIT


@pytest.mark.parametrize("n", [4, 5, 30])
def test_grams_of_gaussian_users_are_noncentral_wishart(n: int) -> None:
    cov, mean = np.array([[1.0, 0.3, 0.0], [0.3, 0.5, -0.2], [0.0, -0.2, 0.8]]), np.array([0.5, -1.0, 0.0])
    grams = sample_grams(Gaussian(cov, mean=mean), n=n, n_sets=40_000, rng=np.random.default_rng(n))
    error = grams.std(axis=0) / np.sqrt(len(grams))
    outer = np.outer(mean, mean)
    expected = n * (cov + outer)
    assert (np.abs(grams.mean(axis=0) - expected) / error).max() < 4.5
    assert (np.abs(grams.mean(axis=0) - expected * (n - 1) / n) / error).max() > 4.5  # a degree of freedom lost
    diagonal = grams[:, range(3), range(3)]
    variance = 2 * n * np.diag(cov) ** 2 + 4 * n * np.diag(cov) * mean**2
    fourth = ((diagonal - diagonal.mean(axis=0)) ** 4).mean(axis=0)
    spread = np.sqrt((fourth - variance**2) / len(grams))
    assert (np.abs(diagonal.var(axis=0) - variance) / spread).max() < 4.5


def test_chunks_of_users_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    users = Uniform([0.0, -1.0], [1.0, 0.5])
    monkeypatch.setattr(module, "_CHUNK_VALUES", 2 * 10_000 * 3)  # three users at a time
    grams = sample_grams(users, n=10, n_sets=10_000, rng=np.random.default_rng(3))
    error = grams.std(axis=0) / np.sqrt(len(grams))
    assert (np.abs(grams.mean(axis=0) - 10 * users.second_moment) / error).max() < 4.5
    assert not sample_grams(users, n=0, n_sets=3, rng=np.random.default_rng(3)).any()


def test_users_of_a_lower_rank_among_others_neither_overflow_nor_move_them() -> None:
    x = np.random.default_rng(0).normal(size=(2, 500, 30))
    twin = x.copy()
    twin[1, :, 1] = twin[1, :, 0]  # in the second world two features are one
    roots, is_full = zip(*(triangular_root(some.swapaxes(1, 2) @ some) for some in (x, twin)), strict=True)
    assert [list(full) for full in is_full] == [[True, True], [True, False]]
    np.testing.assert_array_equal(roots[0][:, :, 0], roots[1][:, :, 0])
    assert np.abs(roots[1]).max() < 100.0
    grams, beta = twin.swapaxes(1, 2) @ twin, np.zeros((2, 30))
    with np.errstate(all="raise"):
        xty, squares = draw_rewards(grams, beta, np.full(2, SIGMA), n=500, rng=np.random.default_rng(1))
    assert np.isfinite(xty).all()
    assert (np.abs(squares / SIGMA**2 - 500) < 5 * np.sqrt(1000)).all()  # chi-square, 500 degrees


def test_an_unknown_sigma_is_each_world_s_own() -> None:
    users = Uniform([0.0, -1.0], [1.0, 0.5])
    market = Market(prior=load_prior("unknown_noise", n_arms=2, n_features=2), covariates=users)
    drawn = draw_worlds(market.prior, W, rng=np.random.default_rng(4))
    assert drawn.sigma is not None
    worlds = fixed_worlds(2, sigma=drawn.sigma)
    n = 6
    data = simulate_data(worlds, market, n_per_arm=np.array([n, 0.0]), rng=np.random.default_rng(5))
    rows = explicit_statistics(worlds, users, arm=0, n=n, sigma=drawn.sigma, rng=np.random.default_rng(6))
    with_sigma = [np.column_stack([part, drawn.sigma]) for part in (of_arm(data, 0), rows)]
    assert worst_z(*with_sigma) < LIMIT
    mixed = np.column_stack([of_arm(data, 0), np.random.default_rng(7).permutation(drawn.sigma)])
    assert worst_z(mixed, with_sigma[1]) > LIMIT


def test_rewards_that_cancel_out_are_consistent_statistics() -> None:
    """One sample a world: y'y is the square of a number that may be next to nothing."""
    n = 200_000
    worlds = Worlds(beta=np.ones((n, 2, 1)), sigma=None)
    data = simulate_data(
        worlds, market_of(Sphere(1), noise=GaussianNoise(1.0)), n_per_arm=np.ones(2), rng=np.random.default_rng(1)
    )
    assert isinstance(data, Statistics)
    assert np.abs(data.xty).min() < 1e-4
    np.testing.assert_allclose(data.xty[..., 0] ** 2, data.yty, rtol=1e-12)  # |x| = 1


# --- seeds and streams -----------------------------------------------------------------------------------------------


def drawn(market: Market, n_worlds: int, *, n_per_arm: FloatArray, seed: int) -> list[tuple[FloatArray, Statistics]]:
    parts = []
    for size, rng in block_seeds(n_worlds, seed=seed):
        worlds = draw_worlds(market.prior, size, rng=rng)
        data = simulate_data(worlds, market, n_per_arm=n_per_arm, rng=rng)
        assert isinstance(data, Statistics)
        parts.append((worlds.beta, data))
    return parts


def test_the_same_seed_gives_the_same_worlds() -> None:
    market, n = market_of(Sphere(3)), np.array([4.0, 7.0])
    first, again, other = (drawn(market, 700, n_per_arm=n, seed=seed) for seed in (3, 3, 4))
    for (beta, data), (beta_2, data_2), (beta_3, data_3) in zip(first, again, other, strict=True):
        np.testing.assert_array_equal(beta, beta_2)
        np.testing.assert_array_equal(data.xty, data_2.xty)
        assert not (beta == beta_3).any()
        assert not (data.xty == data_3.xty).any()


def test_blocks_have_seeds_of_their_own() -> None:
    market, n = market_of(Sphere(3)), np.array([4.0, 7.0])
    few, many = (drawn(market, size, n_per_arm=n, seed=3) for size in (BLOCK, 3 * BLOCK + 20))
    assert [len(beta) for beta, _ in many] == [BLOCK, BLOCK, BLOCK, 20]
    np.testing.assert_array_equal(few[0][0], many[0][0])
    np.testing.assert_array_equal(few[0][1].yty, many[0][1].yty)
    assert not (many[0][0] == many[1][0]).any()
    # Taken in another order, each block is what it was.
    blocks = list(block_seeds(3 * BLOCK + 20, seed=3))
    size, rng = blocks[2]
    np.testing.assert_array_equal(draw_worlds(market.prior, size, rng=rng).beta, many[2][0])


@pytest.mark.parametrize("noise", [GaussianNoise(SIGMA), BernoulliLogit()])
def test_data_on_an_arm_do_not_depend_on_other_arms(noise: GaussianNoise | BernoulliLogit) -> None:
    market = market_of(Sphere(2), n_arms=3, noise=noise)
    worlds = fixed_worlds(2, n_arms=3, n=50)
    few, many = (
        simulate_data(worlds, market, n_per_arm=np.array(n), rng=np.random.default_rng(1))
        for n in ([0.0, 0.0, 6.0], [9.0, 1.0, 6.0])
    )
    if isinstance(few, Statistics) and isinstance(many, Statistics):
        np.testing.assert_array_equal(few.xty[:, 2], many.xty[:, 2])
        np.testing.assert_array_equal(few.yty[:, 2], many.yty[:, 2])
    else:
        assert isinstance(few, Rows)
        assert isinstance(many, Rows)
        np.testing.assert_array_equal(few.x, many.x[:, 10:])
        np.testing.assert_array_equal(few.reward, many.reward[:, 10:])


# --- rows of Bernoulli rewards ---------------------------------------------------------------------------------------


def test_bernoulli_rows_have_the_logit_s_frequencies() -> None:
    users = Empirical([[1.0, 0.0], [1.0, 2.0]], weights=[3, 1])
    worlds = fixed_worlds(2, n_arms=3, n=4000)
    market = market_of(users, n_arms=3, noise=BernoulliLogit())
    data = simulate_data(worlds, market, n_per_arm=np.array([5.0, 0.0, 2.0]), rng=np.random.default_rng(1))
    assert isinstance(data, Rows)
    assert data.x.shape == (4000, 7, 2)
    np.testing.assert_array_equal(data.n, np.broadcast_to([5.0, 0.0, 2.0], (4000, 3)))
    for arm in (0, 2):
        for row, share in zip(users.rows, users.weights, strict=True):
            chosen = (data.arm == arm) & (data.x == row).all(axis=2)
            n_all = (data.arm == arm).sum()
            assert abs(chosen.sum() / n_all - share) < 4 * np.sqrt(share * (1 - share) / n_all)
            p = 1 / (1 + np.exp(-row @ worlds.beta[0, arm]))
            rewards = data.reward[chosen]
            error = np.sqrt(p * (1 - p) / len(rewards))
            assert abs(rewards.mean() - p) < 4 * error
            assert abs(rewards.mean() - (p + 0.05)) > 4 * error


def test_no_samples_at_all_are_empty_rows() -> None:
    market = market_of(Sphere(2), noise=BernoulliLogit())
    worlds = fixed_worlds(2, n=3)
    data = simulate_data(worlds, market, n_per_arm=np.zeros(2), rng=np.random.default_rng(1))
    assert isinstance(data, Rows)
    assert data.x.shape == (3, 0, 2)
    assert not data.n.any()


def test_a_feature_that_no_user_has_tells_nothing() -> None:
    """Dummies: many a column of a small design is zero, and X'y there is zero to the last bit."""
    rows = np.eye(40)[:, :30] + np.eye(40)[:, 5:35]
    market = Market(prior=Prior.gaussian(np.zeros((2, 30)), 0.4), covariates=Empirical(rows), noise=GaussianNoise(0.05))
    rng = np.random.default_rng(0)
    drawn = draw_worlds(market.prior, 200, rng=rng)
    data = simulate_data(drawn, market, n_per_arm=np.array([8.0, 8.0]), rng=rng)
    assert isinstance(data, Statistics)
    absent = np.diagonal(data.xtx, axis1=2, axis2=3) == 0.0
    assert absent.any()
    assert (data.xty[absent] == 0.0).all()
    Statistics(xtx=data.xtx, xty=data.xty, yty=data.yty, n=data.n)  # what simulation skips, these data pass
