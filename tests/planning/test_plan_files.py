"""Plans as files: small, to the last bit, and refused where no plan could be, whoever computed the digest."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rcb_bayes import Plan
from rcb_bayes.errors import RcbError
from rcb_bayes.files.encoding import packed
from rcb_bayes.files.envelope import DIGEST, digest_of
from tests.fuzz.subjects import USERS, plans


def resealed(name: str, change: Callable[[dict[str, Any]], Any]) -> str:
    """A plan's text with a change and the digest that goes with it."""
    document = json.loads(plans()[name][1].to_json())
    del document[DIGEST]
    change(document)
    return json.dumps({**document, DIGEST: digest_of(document)})


@pytest.mark.parametrize("name", ["user", "proof", "definition", "one rate", "platform", "logit", "fixed", "theorem"])
def test_every_kind_of_plan_comes_back_to_the_last_bit(name: str, tmp_path: Path):
    plan = plans()[name][1]
    plan.save(tmp_path / "plan.json")
    again = Plan.load(tmp_path / "plan.json")
    assert again.to_json() == plan.to_json()
    np.testing.assert_array_equal(again.rate(USERS), plan.rate(USERS))
    for epoch in (0, 3):
        np.testing.assert_array_equal(again.guard(USERS, epoch), plan.guard(USERS, epoch))


def test_posterior_means_take_two_and_a_half_characters_each():
    plan = plans()["user"][1]
    document = json.loads(plan.to_json())
    rules = [stage["rule"]["outlook"]["means"] for stage in stages_of(document) if stage["rule"]]
    assert rules
    for means in rules:
        assert means["values"]["kind"] == "i2"
        n_values = np.prod(means["values"]["shape"])
        assert len(means["values"]["data"]) <= 2.5 * n_values + 5
        assert len(means["arms"]) < len(plan.arms)


def test_a_guard_of_one_cut_for_all_keeps_no_worlds():
    rules = plans()["definition"][1].guards
    assert rules
    assert all(rule.outlook is None and not len(rule.gamma) for rule in rules if rule.factors is not None)


def part_with(document: dict[str, Any], name: str) -> dict[str, Any]:
    """The part of a plan that has a figure; the document itself where none has."""
    return next((part for part in document.values() if isinstance(part, dict) and name in part), document)


def set_to(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda document: part_with(document, name).__setitem__(name, value)


def stages_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    return document["cold_start"]["stages"]


def in_stage(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda document: stages_of(document)[0].__setitem__(name, value)


def in_means(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda document: stages_of(document)[1]["rule"]["outlook"]["means"].__setitem__(name, value)


def in_guard(name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda document: document["exploitation"]["guards"][0].__setitem__(name, value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_to("epsilon", -0.1), "`float` >= 0.0 - at `\\$.goal.epsilon`"),
        (set_to("epsilon", "nan"), "Expected `float`, got `str`"),
        (set_to("epsilon", None), "Expected `float`, got `null`"),
        (set_to("n_per_arm", 0), "n_per_arm"),
        (set_to("n_per_arm", 2.5), "n_per_arm"),
        (set_to("n_per_arm", 2**60), "n_per_arm"),
        (set_to("exploration_rate", 1.5), "exploration_rate"),
        (set_to("exploration_rate", -0.5), "exploration_rate"),
        (set_to("exploration_rate", 0.123), "inverse_rate is 1 / exploration_rate"),
        (set_to("exploration_rate_mcse", -1.0), "exploration_rate_mcse"),
        (set_to("rho", 2.0), "rho is a probability"),
        (set_to("notion", "usr"), "notion"),
        (set_to("kind", "guessed"), "kind"),
        (set_to("personalised", 1), "personalised"),
        (set_to("arms", ["usual", "new"]), "prior_mean must be numbers"),
        (set_to("arms", ["usual", "usual", "odd"]), "labels that differ"),
        (set_to("features", ["a", "a"]), "labels that differ"),
        (set_to("prior_mean", packed(np.full((3, 2), np.nan))), "prior_mean must be numbers"),
        (set_to("prior_mean", packed(np.zeros((2, 3)))), "of shape \\(3, 2\\), got shape \\(2, 3\\)"),
        (set_to("prior_mean", {"kind": "f8", "shape": [10**6, 10**6], "data": ""}), "characters"),
        (set_to("alike", [["usual"]]), "each arm once"),
        (set_to("coverage", [0.1]), "coverage has 1 values for 3 arms"),
        (set_to("share_free", 1.2), "share_free"),
        (set_to("spread_multiple", 0.0), "spread_multiple"),
        (set_to("extra", 1), "unknown field `extra`"),
        (lambda document: document["constants"].pop("tau"), "missing required field `tau`"),
        (in_stage("saturated", ["nobody"]), "do not exist"),
        (in_stage("saturated", ["usual", "new", "odd"]), "not none and not all"),
        (in_stage("share", -0.1), "share"),
        (in_stage("rate", 1.1), "rate"),
        (
            lambda document: stages_of(document).append(stages_of(document)[0]),
            "stands there twice",
        ),
        (lambda document: stages_of(document)[1]["rule"].__setitem__("slack", -1.0), "slack"),
        (
            lambda document: stages_of(document)[1]["rule"]["outlook"]["means"].__setitem__("n_worlds", 10**8),
            "claims|shape",
        ),
        (
            lambda document: stages_of(document)[1]["rule"]["outlook"]["means"].__setitem__("arms", [7]),
            "do not exist",
        ),
        (in_guard("gamma", packed(np.zeros(100))), "positive numbers"),
        (in_guard("gamma", packed(np.ones(3))), "3 spreads for 100 worlds"),
        (in_guard("alike", [[0, 1], [1, 2]]), "have each arm once"),
        (in_guard("factors", packed(np.array([0.5, 2.0, 1.0]))), "in \\[0, 1\\]"),
        (in_guard("outlook", None), "neither factors nor worlds"),
        (in_guard("kept", 7.0), "kept"),
    ],
)
def test_what_no_plan_could_be_is_refused_though_the_digest_is_right(change: Any, message: str):
    with pytest.raises(RcbError, match=message) as caught:
        Plan.from_json(resealed("user", change))
    assert "\n" not in str(caught.value)


def test_a_change_that_a_plan_could_have_is_taken_with_a_new_digest():
    assert Plan.from_json(resealed("user", set_to("epsilon", 0.06))).epsilon == 0.06
    with pytest.raises(RcbError, match="a digit was changed"):
        Plan.from_json(plans()["user"][1].to_json().replace('"epsilon": 0.05', '"epsilon": 0.06'))


def test_rates_of_a_table_are_probabilities():
    def change(document: dict[str, Any]) -> None:
        stages_of(document)[0]["rule"]["rates"] = packed(np.full(len(USERS), 1.5))

    with pytest.raises(RcbError, match="rates of users"):
        Plan.from_json(resealed("logit", change))


def test_a_population_is_made_for_the_plans_features_only():
    """Of so many features E[xx'] alone takes 34 GB."""
    with pytest.raises(RcbError, match=r"another number of features|4096"):
        Plan.from_json(resealed("user", lambda document: document["before"]["whom"].update(n_features=65536)))
    with pytest.raises(RcbError, match="another number of features"):
        Plan.from_json(resealed("user", lambda document: document["before"]["whom"].update(n_features=4000)))
