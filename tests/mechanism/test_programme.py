"""What one level leaves pays for another: shares that satisfy every constraint, and the programme by brute force."""

from dataclasses import replace

import numpy as np
import pytest

from rcb_bayes.mechanism.programme import LevelledForms, Prices, priced, raised_shares, settled

U, L, C = 6, 3, 12


def forms_like(*, seed: int, n_users: int = U, n_levels: int = L, n_cells: int = C) -> LevelledForms:
    """What users leave at their own rates, and owe if they are always explored."""
    rng = np.random.default_rng(seed)
    rates = rng.uniform(0.05, 0.6, size=(n_users, n_levels))
    return LevelledForms(
        explored=rng.normal(-0.05, 0.1, size=(n_users, n_levels, n_cells)),
        own=np.maximum(rng.normal(0.0, 0.05, size=(n_users, n_levels, n_cells)), 0.0),
        others=np.maximum(rng.normal(0.0, 1.0, size=(n_users, n_cells)), 0.0),
        rates=rates,
        most=np.minimum(rates + rng.uniform(0.0, 0.6, size=rates.shape), 1.0),
    )


def pooled(forms: LevelledForms, rounds: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """The form of a user who cannot tell levels apart, (U, C)."""
    total = forms.others.copy()
    for level, n in enumerate(rounds):
        theta = shares[:, level, None]
        total += n * ((1 - theta) * forms.own[:, level] + theta * forms.explored[:, level])
    return total


@pytest.mark.parametrize("seed", range(6))
def test_raised_shares_hold_every_constraint(seed: int) -> None:
    forms = forms_like(seed=seed, n_cells=30)  # more cells than a user's programme has
    prices = Prices(rounds=np.array([10.0, 30.0, 80.0]), worth=np.array([1.0, 2.0, 3.0]))
    shares = raised_shares(forms, prices)
    assert ((shares >= 0.0) & (shares <= 1.0)).all()
    assert pooled(forms, prices.rounds, shares).min() > -1e-9
    if shares.max() > 0.0:
        assert pooled(forms, prices.rounds, np.minimum(shares + 0.05, 1.0)).min() < 0.0 or (shares == 1.0).all()


def test_who_owes_nothing_is_raised_all_the_way_and_who_has_nothing_not_at_all() -> None:
    forms = forms_like(seed=1)
    prices = Prices(rounds=np.ones(L), worth=np.ones(L))
    free = replace(forms, explored=np.abs(forms.explored))
    np.testing.assert_array_equal(raised_shares(free, prices), 1.0)
    poor = replace(forms, own=0.0 * forms.own, others=0.0 * forms.others, explored=-np.abs(forms.explored) - 1e-3)
    np.testing.assert_array_equal(raised_shares(poor, prices), 0.0)


def test_a_users_programme_is_the_best_of_a_grid() -> None:
    """Two levels, few cells: worth of the samples, over a grid of shares."""
    forms = forms_like(seed=3, n_levels=2, n_cells=4)
    prices = Prices(rounds=np.array([20.0, 50.0]), worth=np.array([1.0, 2.5]))
    shares = raised_shares(forms, prices)
    worth = prices.worth * prices.rounds * (forms.most - forms.rates)  # (U, 2)
    steps = np.linspace(0.0, 1.0, 201)
    grid = np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2)
    for user in range(U):
        everywhere = forms.at(np.full(len(grid), user))
        fits = pooled(everywhere, prices.rounds, grid).min(axis=1) >= 0.0
        best = (grid[fits] @ worth[user]).max()
        assert best - 1e-9 <= worth[user] @ shares[user] <= best + 0.01 * worth[user].sum()


def test_rounds_are_the_least_of_a_grid() -> None:
    """One user, one level: n with E[n r + e (1 - r)] = s, e <= n, n B + e (A - B) + F >= 0."""
    forms = LevelledForms(
        explored=np.array([[[-0.2, 0.1]]]),
        own=np.array([[[0.01, 0.02]]]),
        others=np.array([[0.5, 0.5]]),
        rates=np.array([[0.1]]),
        most=np.array([[1.0]]),
    )
    found = priced(forms, np.ones(1), np.array([20.0]), rounds=np.array([200.0]))
    n = np.linspace(1.0, 300.0, 200_001)
    e = (20.0 - 0.1 * n) / 0.9
    fits = (e >= 0) & (e <= n) & (0.01 * n - 0.21 * e + 0.5 >= 0)
    assert found.rounds[0] == pytest.approx(n[fits].min(), rel=1e-4)
    assert found.worth[0] == pytest.approx(found.rounds[0] / 20.0, rel=0.2)


def test_raising_never_takes_longer() -> None:
    for seed in range(5):
        forms, weights = forms_like(seed=seed), np.full(U, 1.0 / U)
        samples = np.array([10.0, 12.0, 15.0])
        before = samples / (weights @ forms.rates)
        prices = priced(forms, weights, samples, rounds=before)
        assert prices.rounds.sum() <= before.sum() + 1e-6
        assert (prices.worth > 0.0).all()
        prices, shares = settled(forms, weights, samples, prices)
        assert pooled(forms, prices.rounds, shares).min() > -1e-9
        rates = weights @ (forms.rates + shares * (forms.most - forms.rates))
        np.testing.assert_allclose(prices.rounds, samples / rates, rtol=0.05)
