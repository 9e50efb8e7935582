"""What weighted draws must show: sizes by coefficient, halves that agree, k-hat by the number of draws."""

import numpy as np
import pytest

from rcb_bayes.posterior.importance import normalised
from rcb_bayes.posterior.vouching import (
    LARGEST_ERROR,
    Checked,
    check_means,
    check_rewards,
    khat_limit,
    largest_error,
    needed_size,
)

S, P = 2048, 4


def checked(values: np.ndarray, log_weight: np.ndarray) -> Checked:
    weight = normalised(log_weight[None])
    return check_means(log_weight[None], weight, values[None] - weight @ values)


def is_vouched(found: Checked) -> bool:
    return bool(found.vouched(n_draws=S, n_coefficients=P)[0])


def good(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((S, P)), 0.2 * rng.standard_normal(S)


@pytest.mark.parametrize(("n_draws", "limit"), [(100, 0.5), (512, 0.6309), (2048, 0.698), (8192, 0.7), (10**6, 0.7)])
def test_k_hat_by_the_number_of_draws(n_draws: int, limit: float):
    assert khat_limit(n_draws) == pytest.approx(limit, abs=1e-3)


def test_more_coefficients_need_a_larger_size():
    sizes = [needed_size(n) for n in (1, 10, 24, 100)]
    assert sizes == sorted(sizes)
    assert sizes[0] == 200.0
    assert largest_error(sizes[-1], 100) == pytest.approx(LARGEST_ERROR)
    # The largest of a hundred errors of that size really is about that, and not a third of it.
    errors = np.abs(np.random.default_rng(0).standard_normal((4000, 100))).max(axis=1) / np.sqrt(sizes[-1])
    assert 0.7 * LARGEST_ERROR < errors.mean() < LARGEST_ERROR


def test_good_draws_are_vouched_for():
    found = checked(*good())
    assert is_vouched(found)
    assert found.effective_size[0] > 0.8 * S


def test_a_coefficient_whose_large_values_have_the_large_weights_counts_less():
    """The weights have an effective size of more than 400, the coefficient's mean of a fraction of that."""
    values, log_weight = good()
    order = np.argsort(values[:, 0])
    values[order[-8:], 0] += 30.0
    log_weight[order[-8:]] += 3.5
    weight = normalised(log_weight[None])[0]
    found = checked(values, log_weight)
    assert 1.0 / (weight**2).sum() > 400.0
    assert found.effective_size[0] < 100.0
    assert not is_vouched(found)


def test_halves_that_disagree_are_not_vouched_for():
    values, log_weight = good()
    values[S // 2 :, 2] += 0.5
    found = checked(values, log_weight)
    assert found.effective_size[0] > needed_size(P)  # which does not see it
    assert found.gap[0] > 0.3
    assert not is_vouched(found)


def test_a_half_without_weight_is_not_vouched_for():
    values, log_weight = good()
    log_weight[: S // 2] -= 5.0
    found = checked(values, log_weight)
    assert found.gap[0] == np.inf
    assert not is_vouched(found)


def test_rewards_are_held_to_an_error_and_a_gap():
    rng = np.random.default_rng(1)
    weight = np.full((1, S), 1.0 / S)
    reward = (rng.random((1, S, 3)) < 0.5).astype(float)
    error, gap = check_rewards(weight, reward, reward.mean(axis=1))
    assert error[0] == pytest.approx(0.5 / np.sqrt(S), rel=0.05)
    assert gap[0] < 4.5 * 2.0 * 0.5 / np.sqrt(S)
    reward[:, : S // 2, 1] = 1.0
    assert check_rewards(weight, reward, reward.mean(axis=1))[1][0] == pytest.approx(0.5, abs=0.05)


def test_known_means_need_no_draws():
    values, log_weight = good()
    values[S // 2 :] += 5.0
    found = checked(values, log_weight)
    assert not is_vouched(found)
    assert is_vouched(found.of_known_means(np.array([True])))


def test_the_worse_of_two_groups_counts_and_nan_stays():
    first = checked(*good())
    bad = Checked(*(np.array([value]) for value in (np.nan, 10.0, 0.5, 0.1, 0.2)))
    both = first.worse(bad)
    assert np.isnan(both.khat[0])
    assert (both.effective_size[0], both.gap[0], both.reward_error[0]) == (10.0, 0.5, 0.1)
    assert not is_vouched(both)
