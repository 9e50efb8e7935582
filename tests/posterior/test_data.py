"""Data sets: bad input is refused by name, good input is summed as by hand."""

from typing import Any

import numpy as np
import pytest

from rcb_bayes.errors import DataError
from rcb_bayes.posterior.data import Rows, Statistics, as_rows, as_statistics

M, K, D, N = 3, 2, 2, 6


def rows(rng: np.random.Generator, n: int = N) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x = rng.standard_normal((n, D))
    return x, rng.integers(K, size=n), x @ np.array([1.0, -0.5]) + 0.1 * rng.standard_normal(n)


def good_statistics() -> dict[str, np.ndarray]:
    """Sums of M data sets of N samples of each arm."""
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((M, K, N, D)), rng.standard_normal((M, K, N))
    return {
        "xtx": x.swapaxes(2, 3) @ x,
        "xty": (x.swapaxes(2, 3) @ y[..., None])[..., 0],
        "yty": (y**2).sum(axis=2),
        "n": np.full((M, K), float(N)),
    }


def good_rows() -> dict[str, Any]:
    rng = np.random.default_rng(2)
    return {
        "x": rng.standard_normal((M, N, D)),
        "arm": rng.integers(-1, K, size=(M, N)),
        "reward": rng.integers(2, size=(M, N)).astype(float),
        "n_arms": K,
    }


def changed(values: np.ndarray, where: Any, value: Any) -> np.ndarray:
    out = values.astype(float).copy()
    out[where] = value
    return out


def one_arm(xtx: Any, xty: Any, yty: float, n: float) -> dict[str, np.ndarray]:
    """The good sums with those of data set 1, arm 0, replaced."""
    sums = good_statistics()
    new = {"xtx": xtx, "xty": xty, "yty": yty, "n": n}
    return {name: changed(sums[name], (1, 0), value) for name, value in new.items()}


SUMS = good_statistics()

BAD_STATISTICS = {
    "NaN in X'X": (SUMS | {"xtx": changed(SUMS["xtx"], (0, 0, 0, 0), np.nan)}, "xtx must be finite"),
    "infinite X'y": (SUMS | {"xty": changed(SUMS["xty"], (0, 0, 0), np.inf)}, "xty must be finite"),
    "NaN in y'y": (SUMS | {"yty": changed(SUMS["yty"], (2, 1), np.nan)}, r"yty must be finite.*\(2, 1\)"),
    "infinite n": (SUMS | {"n": changed(SUMS["n"], (0, 0), np.inf)}, "n must be finite"),
    "text": (SUMS | {"yty": [["a", "b"]] * M}, "yty must be numeric"),
    "X'X of other features": (SUMS | {"xtx": SUMS["xtx"][..., :1, :1]}, r"xtx must have shape \(3, 2, 2, 2\)"),
    "n of other arms": (SUMS | {"n": SUMS["n"][:, :1]}, r"n must have shape \(3, 2\)"),
    "y'y of other data sets": (SUMS | {"yty": SUMS["yty"][:1]}, r"yty must have shape \(3, 2\)"),
    "one data set without its dimension": (SUMS | {"n": SUMS["n"][0]}, "n must have 2 dimension"),
    "X'X that is not symmetric": (SUMS | {"xtx": changed(SUMS["xtx"], (1, 1, 0, 1), 9.0)}, "symmetric"),
    "small X'X that is not symmetric": (
        one_arm([[1e-10, 9e-11], [1e-11, 1e-10]], 0.0, 1.0, 5),
        "symmetric",
    ),
    "X'X with a negative eigenvalue": (
        one_arm([[1.0, 2.0], [2.0, 1.0]], 0.0, 1.0, 5),
        "positive semi-definite, got an eigenvalue of -1",
    ),
    "small X'X with a negative eigenvalue": (
        one_arm([[1e-8, 2e-8], [2e-8, 1e-8]], 0.0, 1.0, 5),
        "positive semi-definite",
    ),
    "a negative sum of squares of x": (one_arm([[-1.0, 0.0], [0.0, 1.0]], 0.0, 1.0, 5), "positive semi-definite"),
    "a negative sum of squares of y": (one_arm(np.eye(2), 0.0, -1.0, 5), "y'y must hold sums of squares"),
    "sums without samples": (one_arm(np.eye(2), 0.0, 0.0, 0), "data set 1 has no sample of arm 0"),
    "rewards without samples": (one_arm(0.0, 0.0, 2.0, 0), "data set 1 has no sample of arm 0"),
    "a negative number of samples": (SUMS | {"n": SUMS["n"] - 10}, "whole numbers"),
    "half a sample": (SUMS | {"n": SUMS["n"] + 0.5}, "whole numbers"),
    "X'y too large for one coefficient": (one_arm(np.eye(2), [1.5, 0.0], 1.0, 5), "X'y is larger"),
    "X'y too large for two together": (one_arm(np.eye(2), [0.9, 0.9], 1.0, 5), "X'y is larger"),
    "X'y outside the users seen": (one_arm([[1.0, 1.0], [1.0, 1.0]], [0.5, -0.5], 1.0, 1), "X'y is larger"),
    "rewards that are all zero": (one_arm(np.eye(2), [0.5, 0.0], 0.0, 5), "X'y is larger"),
    "more directions than samples": (
        one_arm(np.eye(2), 0.0, 1.0, 1),
        r"data set 1 has 1 sample\(s\) of arm 0, but its X'X has rank 2",
    ),
}


@pytest.mark.parametrize(("sums", "message"), BAD_STATISTICS.values(), ids=BAD_STATISTICS.keys())
def test_bad_statistics_are_refused(sums: dict[str, np.ndarray], message: str):
    with pytest.raises(DataError, match=message):
        Statistics(**sums)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_the_checks_do_not_depend_on_units(scale: float):
    rng = np.random.default_rng(3)
    x, arm, y = rows(rng)
    Statistics.from_rows(x * scale, arm=arm, reward=y, n_arms=K)
    Statistics.from_rows(x * np.array([1.0, scale]), arm=arm, reward=y / scale, n_arms=K)
    sums = good_statistics()
    with pytest.raises(DataError, match="X'y is larger"):
        Statistics(xtx=sums["xtx"] * scale**2, xty=sums["xty"] * scale * 5.0, yty=sums["yty"], n=sums["n"])


def test_sums_of_many_samples_pass_their_own_rounding():
    """Noiseless rewards and a constant feature: every inequality holds with equality."""
    rng = np.random.default_rng(4)
    x = np.column_stack([np.ones(20_000), rng.standard_normal(20_000), rng.integers(2, size=20_000)])
    x = np.column_stack([x, x[:, 0] - x[:, 2]])  # collinear
    running = Statistics.from_rows(x, arm=np.zeros(len(x), dtype=int), reward=x.sum(axis=1), n_arms=2)
    Statistics(xtx=running.xtx * 7.0, xty=running.xty * 7.0, yty=running.yty * 7.0, n=running.n * 7.0)


def test_from_rows_is_the_sum_over_each_arms_rows():
    x, arm, y = rows(np.random.default_rng(5))
    found = Statistics.from_rows(x, arm=arm, reward=y, n_arms=K + 1)
    for k in range(K + 1):
        own = [(row, reward) for row, a, reward in zip(x, arm, y, strict=True) if a == k]
        np.testing.assert_allclose(found.xtx[0, k], sum((np.outer(r, r) for r, _ in own), np.zeros((D, D))))
        np.testing.assert_allclose(found.xty[0, k], sum((r * reward for r, reward in own), np.zeros(D)))
        np.testing.assert_allclose(found.yty[0, k], sum(reward**2 for _, reward in own))
        assert found.n[0, k] == len(own)
    assert found.n_sets == 1
    assert found.n[0, K] == 0  # an arm that nobody was given


BAD_ROWS_FOR_SUMS = {
    "arm out of range": ({"arm": np.array([0, 1, 2, 0, 1, 0])}, "arm must lie in 0 to 1, got 0 to 2"),
    "padding": ({"arm": np.array([0, 1, -1, 0, 1, 0])}, "arm must lie in 0 to 1, got -1"),
    "arm as floats": ({"arm": np.zeros(N)}, "integer positions"),
    "too few arms": ({"arm": np.zeros(2, dtype=int)}, "arm must hold 6 integer positions"),
    "too few rewards": ({"reward": np.zeros(2)}, r"one entry per row of x \(6\), got 2"),
    "NaN in a reward": ({"reward": np.full(N, np.nan)}, "reward must be finite"),
    "one row as a vector": ({"x": np.zeros(D)}, "x must have 2 dimension"),
}


@pytest.mark.parametrize(("change", "message"), BAD_ROWS_FOR_SUMS.values(), ids=BAD_ROWS_FOR_SUMS.keys())
def test_bad_rows_are_not_summed(change: dict[str, Any], message: str):
    x, arm, y = rows(np.random.default_rng(6))
    given: dict[str, Any] = {"x": x, "arm": arm, "reward": y} | change
    with pytest.raises(DataError, match=message):
        Statistics.from_rows(given["x"], arm=given["arm"], reward=given["reward"], n_arms=K)


@pytest.mark.parametrize("index", [slice(1, 3), np.array([2, 0]), slice(0, 0)])
def test_take_selects_data_sets(index: Any):
    data = Statistics(**good_statistics())
    some = data.take(index)
    assert some.n_sets == len(data.n[index])
    for name in ("xtx", "xty", "yty", "n"):
        np.testing.assert_array_equal(getattr(some, name), getattr(data, name)[index])


def test_no_data_set_is_a_batch_too():
    assert Statistics(xtx=np.zeros((0, K, D, D)), xty=np.zeros((0, K, D)), yty=np.zeros((0, K)), n=np.zeros((0, K)))


BAD_ROWS = {
    "NaN in x": ({"x": np.full((M, N, D), np.nan)}, "x must be finite"),
    "one data set without its dimension": ({"x": np.zeros((N, D))}, "x must have 3 dimension"),
    "arm of another length": ({"arm": np.zeros((M, N + 1), dtype=int)}, r"must have shape \(3, 6\)"),
    "reward of another length": ({"reward": np.zeros((M, N + 1))}, r"must have shape \(3, 6\)"),
    "arm as floats": ({"arm": np.zeros((M, N))}, "arm must hold positions 0 to 1"),
    "arm out of range": ({"arm": np.full((M, N), K)}, "arm must hold positions 0 to 1"),
    "arm below the padding": ({"arm": np.full((M, N), -2)}, "arm must hold positions 0 to 1"),
    "reward that is no event": ({"reward": np.full((M, N), 0.5)}, "0 or 1; use GaussianNoise"),
}


@pytest.mark.parametrize(("change", "message"), BAD_ROWS.values(), ids=BAD_ROWS.keys())
def test_bad_rows_are_refused(change: dict[str, Any], message: str):
    with pytest.raises(DataError, match=message):
        Rows(**(good_rows() | change))


def test_rows_count_samples_and_ignore_padding():
    given = good_rows()
    given["reward"] = np.where(given["arm"] < 0, 0.5, given["reward"])  # what stands in a padded place is nobody's
    data = Rows(**given)
    for m in range(M):
        assert data.n[m].tolist() == [(given["arm"][m] == k).sum() for k in range(K)]
    some = data.take(np.array([2, 0]))
    np.testing.assert_array_equal(some.x, data.x[[2, 0]])
    assert (some.n_sets, some.n_arms) == (2, K)


def test_each_reward_model_takes_its_own_form_of_data():
    sums, listed = Statistics(**good_statistics()), Rows(**good_rows())
    assert as_statistics(sums) is sums
    assert as_rows(listed) is listed
    with pytest.raises(DataError, match="Gaussian rewards are given as Statistics"):
        as_statistics(listed)
    with pytest.raises(DataError, match="Bernoulli rewards are given as Rows"):
        as_rows(sums)


# --- fingerprints --------------------------------------------------------------------------------------------------


def test_fingerprints_are_the_data_sets_own():
    """Whatever its place, the order of its samples and of its arms; and spread evenly."""
    rng = np.random.default_rng(5)
    x, reward, arm = rng.standard_normal((800, 7, 2)), rng.standard_normal((800, 7)), rng.integers(0, 2, 7)
    sets = [Statistics.from_rows(u, arm=arm, reward=y, n_arms=2) for u, y in zip(x, reward, strict=True)]
    found = np.concatenate([one.fingerprints() for one in sets])
    assert len(np.unique(found)) > 790
    assert np.bincount(found % 8, minlength=8).min() > 50  # of 100 each
    moved = [
        Statistics.from_rows(u[::-1], arm=1 - arm[::-1], reward=y[::-1], n_arms=2)
        for u, y in zip(x, reward, strict=True)
    ]
    assert (np.concatenate([one.fingerprints() for one in moved]) == found).all()


def test_fingerprints_of_rows_do_not_count_padding():
    rng = np.random.default_rng(6)
    x, arm = rng.standard_normal((50, 6, 2)), rng.integers(0, 2, (50, 6))
    reward = rng.integers(0, 2, (50, 6)).astype(float)
    plain = Rows(x=x, arm=arm, reward=reward, n_arms=2).fingerprints()
    padded = Rows(
        x=np.concatenate([np.full((50, 3, 2), 9.0), x], axis=1),
        arm=np.concatenate([np.full((50, 3), -1), arm], axis=1),
        reward=np.concatenate([np.ones((50, 3)), reward], axis=1),
        n_arms=2,
    )
    np.testing.assert_array_equal(padded.fingerprints(), plain)
    assert (Rows(x=x, arm=arm, reward=1.0 - reward, n_arms=2).fingerprints() != plain).mean() > 0.9
