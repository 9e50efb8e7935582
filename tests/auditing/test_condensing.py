"""Cells from products over worlds: those of the plain twin, whatever the weights; memory."""

from dataclasses import replace

import numpy as np
import pytest

from rcb_bayes.auditing import cells
from rcb_bayes.auditing.averaging import averages_of
from rcb_bayes.auditing.condensing import Cells, condensed
from rcb_bayes.auditing.view import Asked, View
from rcb_bayes.mechanism.choice import best_shares
from rcb_bayes.mechanism.kernel import ipgs_probabilities
from rcb_bayes.mechanism.margins import ENOUGH_EVENTS, FEW_EVENTS
from rcb_bayes.mechanism.notions import DEFINITION, NOTIONS, PROOF, USER, Notion
from rcb_bayes.mechanism.panel import Panel
from tests.twins.cell_by_cell import plain_cells

EPSILON = 0.05


def random_view(seed: int, *, n_worlds: int = 120, n_arms: int = 4, n_users: int = 3, kind: str = "kernel") -> View:
    """A stage: sampling by gaps, an organic stage that explores, or one in which every world has sets of its own."""
    rng = np.random.default_rng([seed, 5])
    shape = (n_arms, n_users, n_worlds)
    prior = rng.normal(0.0, 0.2, size=(n_users, n_arms))
    rewards = prior.T[:, :, None] + rng.normal(0.0, 0.3, size=(n_arms, 1, 1)) * rng.standard_normal(shape)
    if kind != "kernel":
        rewards[-2:] = prior.T[-2:, :, None]  # nothing is known of the last two arms
    best = best_shares(rewards, axis=0)
    if kind == "kernel":
        factors = np.repeat(rng.random((n_arms, n_users)), n_worlds, axis=1)
        chances = ipgs_probabilities(rewards.reshape(n_arms, -1), 20.0, guard=factors).reshape(shape)
    else:
        rate = rng.uniform(0.05, 0.9, size=(1, n_users, 1))
        promoted = np.zeros(shape)
        promoted[-1] = 1.0
        if kind == "own sets":
            promoted = np.eye(n_arms)[rng.integers(n_arms, size=(n_users, n_worlds))].transpose(2, 0, 1)
        chances = rate * promoted + (1.0 - rate) * best
    return View(name="stage", chances=chances, rewards=rewards, prior_rewards=prior, best=best)


def weighed(view: View, seed: int) -> View:
    weights = np.random.default_rng([seed, 6]).gamma(2.0, size=view.n_worlds)
    return replace(view, weights=weights / weights.mean())


def asked(notion: Notion = USER) -> Asked:
    return Asked(notion=notion, epsilon=EPSILON, n_worlds=100, n_users=3, level=0.05, seed=1)


def cells_of(view: View, notion: Notion) -> Cells:
    found = condensed(view, asked(notion), notions=(notion,)).cells[notion.name]
    assert isinstance(found, Cells)
    return found


def with_averages(view: View) -> View:
    """The view with averages over its own users."""
    users = np.arange(view.n_users, dtype=float)[:, None]
    share = np.arange(1.0, view.n_users + 1.0)
    prior = view.prior_rewards
    panel = Panel(users=users, weights=share / share.sum(), prior_rewards=prior, promoted_by=prior, is_exact=False)

    return replace(view, averages=averages_of(view.of_users, panel, epsilon=EPSILON, n_worlds=view.n_worlds))


def differences(found: Cells, view: View, notion: Notion) -> dict[str, float]:
    """The largest difference from the plain twin, of each figure, where verdicts and bounds may hang on it."""
    twin = plain_cells(view, notion, EPSILON)
    places = list(zip(*(part.tolist() for part in np.unravel_index(found.at, found.shape)), strict=True))
    masses = np.broadcast_to(found.mass, found.shape).reshape(-1)[found.at]
    assert set(places) == set(twin.estimate)
    worst: dict[str, float] = {}

    def note(name: str, ours: float, theirs: float) -> None:
        worst[name] = max(worst.get(name, 0.0), abs(float(ours) - float(theirs)))

    for n, place in enumerate(places):
        evidence, holds = found.evidence, twin.always_holds[place]
        for name in ("estimate", "error", "margin_error"):
            note(name, getattr(found, name)[n], getattr(twin, name)[place])
        note("always_holds", evidence.always_holds[n], holds)
        note("n_events", evidence.n_events[n], twin.n_events[place])
        note("is_thin", found.is_thin[n], twin.thin[place])
        can_pass = twin.estimate[place] >= 0
        if holds:
            bound = (twin.estimate[place] - 12.0 * twin.error[place]) / masses[n] - EPSILON
            note("floor", *(max(min(value, 0.0), min(bound, 0.0)) for value in (evidence.least[n], twin.least[place])))
        elif can_pass:
            few = [min(int(count), FEW_EVENTS) for count in (evidence.n_negative[n], twin.n_negative[place])]
            note("n_negative", *few)
            if few[1] < FEW_EVENTS:
                note("loss", evidence.loss[n], twin.loss[place])
        elif twin.n_events[place] < ENOUGH_EVENTS:
            note("gain", evidence.gain[n], twin.gain[place])
    return worst


@pytest.mark.parametrize("notion", [USER, PROOF], ids=lambda notion: notion.name)
@pytest.mark.parametrize("kind", ["kernel", "organic", "own sets"])
def test_cells_are_those_of_the_plain_twin(notion: Notion, kind: str):
    seen: set[str] = set()
    for seed in range(8):
        for n_worlds in (120, 400):
            plain = random_view(seed, kind=kind, n_worlds=n_worlds)
            for view in (plain, weighed(plain, seed)):
                found = differences(cells_of(view, notion), view, notion)
                assert max(found.values()) < 1e-11, (seed, n_worlds, found)
                seen |= set(found)
    assert {"estimate", "error", "margin_error", "always_holds", "floor"} <= seen


@pytest.mark.parametrize("notion", [USER, PROOF], ids=lambda notion: notion.name)
def test_a_planted_error_is_noticed(notion: Notion):
    """A reward that is off by a thousandth in a single world."""
    view = random_view(1)
    off = view.rewards.copy()
    off[1, 0, 7] += 1e-3
    found = differences(cells_of(replace(view, rewards=off), notion), view, notion)
    assert found["estimate"] > 1e-9
    assert found["error"] > 1e-9


@pytest.mark.parametrize("notion", NOTIONS.values(), ids=lambda notion: notion.name)
@pytest.mark.parametrize("kind", ["kernel", "organic", "own sets"])
def test_worlds_of_weight_zero_might_as_well_not_have_been_drawn(notion: Notion, kind: str):
    view = random_view(2, kind=kind, n_worlds=200)
    half = replace(view, chances=view.chances[:, :, ::2], rewards=view.rewards[:, :, ::2], best=view.best[:, :, ::2])
    weights = np.where(np.arange(200) % 2 == 0, 2.0, 0.0)
    ours = cells_of(with_averages(replace(view, weights=weights)), notion)
    plain = cells_of(with_averages(half), notion)
    for name in ("estimate", "error", "margin_error", "mass"):
        np.testing.assert_allclose(getattr(ours, name), getattr(plain, name), atol=1e-12)
    for name in ("always_holds", "n_events", "n_negative", "gain", "loss", "least"):
        np.testing.assert_allclose(getattr(ours.evidence, name), getattr(plain.evidence, name), atol=1e-12)
    np.testing.assert_allclose(ours.reach.largest, plain.reach.largest, atol=1e-9)
    # Weights that nobody heeds would be noticed.
    unheeded = cells_of(with_averages(view), notion)
    assert len(unheeded.estimate) != len(plain.estimate) or abs(unheeded.estimate - plain.estimate).max() > 1e-4


@pytest.mark.parametrize("notion", NOTIONS.values(), ids=lambda notion: notion.name)
def test_a_world_of_weight_three_counts_thrice(notion: Notion):
    view = random_view(3, n_worlds=150)
    times = np.random.default_rng(4).integers(0, 4, size=150)
    often = np.repeat(np.arange(150), times)
    many = replace(
        view, chances=view.chances[:, :, often], rewards=view.rewards[:, :, often], best=view.best[:, :, often]
    )
    ours = cells_of(with_averages(replace(view, weights=times / times.mean())), notion)
    repeated = cells_of(with_averages(many), notion)
    np.testing.assert_allclose(ours.estimate, repeated.estimate, atol=1e-12)
    np.testing.assert_allclose(ours.mass, repeated.mass, atol=1e-12)
    assert (ours.error > repeated.error - 1e-12).all()  # a world that counts thrice is still one world
    assert (ours.evidence.always_holds == repeated.evidence.always_holds).all()


@pytest.mark.parametrize("notion", [USER, PROOF], ids=lambda notion: notion.name)
def test_arms_without_a_chance_have_no_cells_and_change_no_other(notion: Notion):
    """Two arms that are never the best nor promoted, beside four that are: whatever the block that users come in."""
    for view in (random_view(7, kind="organic", n_arms=4), weighed(random_view(7, kind="organic"), 7)):
        idle = view.rewards.min() - 1.0 + 0.1 * np.random.default_rng(8).standard_normal((2, *view.rewards.shape[1:]))
        wider = replace(
            view,
            chances=np.concatenate([np.zeros(idle.shape), view.chances]),
            rewards=np.concatenate([idle, view.rewards]),
            prior_rewards=np.concatenate([idle.mean(axis=2).T, view.prior_rewards], axis=1),
            best=np.concatenate([np.zeros(idle.shape), view.best]),
        )
        ours, plain = cells_of(wider, notion), cells_of(view, notion)
        user, arm, rival = np.unravel_index(ours.at, ours.shape)
        assert arm.min() == 2
        assert max(differences(ours, wider, notion).values()) < 1e-11
        own = rival > 1
        assert (np.ravel_multi_index((user[own], arm[own] - 2, rival[own] - 2), plain.shape) == plain.at).all()
        for name in ("estimate", "error", "margin_error", "is_thin"):
            np.testing.assert_allclose(getattr(ours, name)[own], getattr(plain, name), atol=1e-12)


def test_blocks_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch):
    view = weighed(random_view(9, kind="own sets", n_users=6), 9)
    whole = cells_of(view, USER)
    monkeypatch.setattr(cells, "_BLOCK_CELLS", 8)
    monkeypatch.setattr(cells, "_CHUNK_VALUES", 1)
    ours = cells_of(view, USER)
    for name in ("at", "estimate", "error", "margin_error", "is_thin"):
        np.testing.assert_allclose(getattr(ours, name), getattr(whole, name), atol=1e-14)
    np.testing.assert_allclose(ours.reach.largest, whole.reach.largest, atol=1e-6)


def test_averages_are_those_of_users_one_by_one():
    for view in (random_view(6), weighed(random_view(6), 6)):
        whole = with_averages(view)
        ours = cells_of(whole, DEFINITION)
        share = np.arange(1.0, view.n_users + 1.0) / np.arange(1.0, view.n_users + 1.0).sum()
        twin = plain_cells(view, USER, EPSILON)
        for n, (arm, rival) in enumerate(zip(*np.unravel_index(ours.at, ours.shape), strict=True)):
            own = [twin.estimate[user, arm, rival] for user in range(view.n_users)]
            assert ours.estimate[n] == pytest.approx(share @ own, abs=1e-12)
            lead = view.rewards[arm] - view.rewards[rival]
            least = np.where(view.chances[arm] > 0, lead, np.inf).min()
            assert ours.evidence.always_holds[n] == (least >= -EPSILON)
            if least >= -EPSILON:
                assert min(ours.evidence.least[n], 0.0) == pytest.approx(min(least, 0.0), abs=1e-12)
