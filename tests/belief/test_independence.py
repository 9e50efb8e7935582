"""Which arms share randomness: never called independent wrongly, checked by hand and by the dependence of draws."""

from typing import Any

import numpy as np
import pytensor
import pytest
from pymc import Model
from scipy import stats

from rcb_bayes.belief.graph import Graph, freeze
from rcb_bayes.belief.independence import Sources, independent_groups
from tests.belief import zoo
from tests.belief.zoo import pm, pt, scan

N_DRAWS = 3_000
N_LOOPED = 600
WORST_Z = 5.0  # about five thousand coefficients are looked at
LOOPED = {  # models that are drawn one by one
    "loop_over_arms",
    "custom_distribution_with_a_shared_part",
    "custom_random_function_with_a_shared_part",
    "shared_label",
    "shared_label_picks_from_each_arms_table",
    "random_slice",
}


def groups_of(model: Model, n_arms: int = zoo.K) -> zoo.Groups:
    return independent_groups(freeze(model)["beta"], n_arms=n_arms, sources=Sources(Graph()))


def dependence(draws: np.ndarray) -> np.ndarray:
    """Standard scores (K, K) of dependence between arms: rank correlations of values and of distances from the median.

    Under independence a rank correlation has standard deviation 1/sqrt(n - 1), whatever the margins.
    """
    n, n_arms, _ = draws.shape
    spread = np.abs(draws - np.median(draws, axis=0))
    seen = np.concatenate([draws, spread], axis=2)  # (n, K, 2 d)
    ranks = stats.rankdata(seen, axis=0)
    ranks = (ranks - ranks.mean(axis=0)) / (ranks.std(axis=0) + 1e-12)
    scores = np.einsum("nif,njg->ijfg", ranks, ranks) / n * np.sqrt(n - 1)
    worst = np.abs(scores).max(axis=(2, 3))
    worst[np.arange(n_arms), np.arange(n_arms)] = 0.0
    return worst


def between_groups(scores: np.ndarray, groups: zoo.Groups) -> float:
    """The largest score between arms of different groups."""
    label = np.array([next(g for g, arms in enumerate(groups) if arm in arms) for arm in range(len(scores))])
    return float(np.where(label[:, None] != label[None, :], scores, 0.0).max())


@pytest.mark.parametrize("name", zoo.INDEPENDENT)
def test_independent_arms_are_found_and_draws_agree(name: str):
    model = zoo.build(zoo.INDEPENDENT[name])
    assert groups_of(model) == zoo.APART
    assert dependence(zoo.forward_draws(model, N_DRAWS, seed=1)).max() < WORST_Z


@pytest.mark.parametrize("name", zoo.COUPLED)
def test_coupled_arms_are_found_and_draws_agree(name: str):
    define, groups = zoo.COUPLED[name]
    model = zoo.build(define)
    assert groups_of(model) == groups
    scores = dependence(zoo.forward_draws(model, N_LOOPED if name in LOOPED else N_DRAWS, seed=1))
    assert between_groups(scores, groups) < WORST_Z
    # The draws do show what would be missed by calling the arms independent.
    assert between_groups(scores, zoo.APART) > WORST_Z


@pytest.mark.parametrize("name", zoo.FALSELY_COUPLED)
def test_unproved_independence_counts_as_coupled(name: str):
    assert groups_of(zoo.build(zoo.FALSELY_COUPLED[name])) == zoo.TOGETHER


def test_the_dependence_of_draws_sees_a_weak_coupling():
    rng = np.random.default_rng(0)
    draws = rng.standard_normal((N_DRAWS, zoo.K, zoo.D))
    assert dependence(draws).max() < WORST_Z
    scaled = draws * np.exp(0.5 * rng.standard_normal((N_DRAWS, 1, 1)))
    assert dependence(scaled).max() > WORST_Z
    shifted = draws + 0.4 * rng.standard_normal((N_DRAWS, 1, 1))
    assert dependence(shifted).max() > WORST_Z


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1], [1, 0, 2]])
def test_groups_follow_the_arms_when_they_are_permuted(order: list[int]):
    def define() -> Any:
        mixing = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
        return (mixing @ zoo.normal())[np.array(order)]

    alone = order.index(2)
    pair = tuple(sorted(set(range(zoo.K)) - {alone}))
    assert set(groups_of(zoo.build(define))) == {pair, (alone,)}


def test_as_many_arms_as_features_are_not_confused():
    square = {"arms": ["a", "b"], "features": ["x", "y"]}
    over_arms = zoo.build(lambda: pm.MvNormal("z", np.zeros(2), zoo.CORRELATED, shape=(2, 2)).T, **square)
    over_features = zoo.build(lambda: pm.MvNormal("z", np.zeros(2), zoo.CORRELATED, shape=(2, 2)), **square)
    assert groups_of(over_arms, 2) == ((0, 1),)
    assert groups_of(over_features, 2) == ((0,), (1,))


def test_a_generator_inside_a_loop_is_a_source():
    def step(generator: Any) -> Any:
        after, drawn = pt.random.normal(0, 1, size=(zoo.D,), rng=generator, return_next_rng=True)
        return drawn, after

    def define() -> Any:
        seed = pytensor.shared(np.random.default_rng(1))
        drawn, _ = scan(step, outputs_info=[None, seed], n_steps=zoo.K, return_updates=False)
        return drawn

    assert groups_of(zoo.build(define)) == zoo.TOGETHER
