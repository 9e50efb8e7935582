"""Rules as plain JSON: to the last bit in Python and in JavaScript, and refused where no rule could be."""

import json
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes.files.envelope import DIGEST, digest_of
from rcb_bayes.planning import rule_files
from tests.planning.test_distilling import box, box_plan, different, favoured, favoured_rule, level_rule, small

EVALUATOR = Path(rule_files.__file__).with_name("rule.js")
NODE = shutil.which("node")
ASKED = """
const { rate, guard } = require(process.argv[1]);
const { rule, users, stages, epochs } = JSON.parse(require("fs").readFileSync(0, "utf8"));
const rates = stages.map((stage) => users.map((x) => rate(rule, x, stage)));
const guards = epochs.map((epoch) => users.map((x) => guard(rule, x, epoch)));
console.log(JSON.stringify({ rates, guards }));
"""


@cache
def box_rule() -> rcb.Rule:
    return small(box_plan(), 64)


RULES = {
    "guards of each user": (favoured_rule, favoured),
    "one guard for all": (box_rule, box),
    "by level": (level_rule, different),
}


@pytest.mark.skipif(NODE is None, reason="node is not installed: the evaluator in JavaScript cannot be run")
@pytest.mark.parametrize("name", RULES)
def test_the_evaluator_in_javascript_gives_the_same_numbers(name: str):
    rule, market = RULES[name][0](), RULES[name][1]()
    users = market.covariates.sample(2000, seed=9)
    arms = list(rule.arms)
    stages = [*map(list, rule.stages), *([arms[:1], arms[1:]] if rule.levels else []), [], arms]
    if len(arms) > 2:
        stages.append([arms[2], arms[0]])
    epochs = [0, 1, 40]
    asked = {"rule": json.loads(rule.to_json()), "users": users.tolist(), "stages": stages, "epochs": epochs}
    done = subprocess.run(
        [NODE or "", "-e", ASKED, str(EVALUATOR)], input=json.dumps(asked), capture_output=True, check=True, text=True
    )
    found = json.loads(done.stdout)
    for stage, rates in zip(stages, found["rates"], strict=True):
        assert rates == rule.rate(users, saturated=stage).tolist(), stage
    for epoch, guards in zip(epochs, found["guards"], strict=True):
        assert guards == rule.guard(users, epoch).tolist(), epoch


def test_the_evaluator_is_short():
    lines = EVALUATOR.read_text(encoding="utf-8").splitlines()
    assert len([line for line in lines if line.strip() and not line.startswith("//")]) <= 40


@pytest.mark.parametrize("name", RULES)
def test_a_rule_comes_back_to_the_last_bit(name: str, tmp_path: Path):
    rule, market = RULES[name][0](), RULES[name][1]()
    rule.save(tmp_path / "rule.json")
    again = rcb.Rule.load(tmp_path / "rule.json")
    assert again.to_json() == rule.to_json()
    users = market.covariates.sample(100, seed=10)
    np.testing.assert_array_equal(again.rate(users), rule.rate(users))
    np.testing.assert_array_equal(again.guard(users, 1), rule.guard(users, 1))
    assert (again.kept, again.kept_mcse, again.of_plan) == (rule.kept, rule.kept_mcse, rule.of_plan)


def resealed(change: Callable[[dict[str, Any]], Any]) -> str:
    document = json.loads(favoured_rule().to_json())
    del document[DIGEST]
    change(document)
    return json.dumps({**document, DIGEST: digest_of(document)})


def put(*path: Any) -> Callable[[dict[str, Any]], None]:
    *places, last, value = path

    def change(document: dict[str, Any]) -> None:
        for place in places:
            document = document[place]
        document[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (put("rates", "values", 0, 0, 1.5), "1.5|<= 1"),
        (put("rates", "values", 0, 0, "much"), "number|float"),
        (put("rates", "values", 0, [0.5]), "same length|in \\[0, 1\\]"),
        (put("rates", "thresholds", 0, None), "null|float"),
        (put("rates", "below", 0, 0), "reached once|leads back"),
        (put("rates", "weights", 0, [1.0]), "same length|weights"),
        (put("guards", "values", 0, []), "same length|factors"),
        (put("rates", "stages", 0, ["arm_1", "arm_0"]), "in their order"),
        (put("rates", "stages", 0, ["arm_0", "arm_1", "arm_2"]), "some of the arms"),
        (put("rates", "shares", []), "the share of cold starts"),
        (put("alike", [["arm_0"]]), "each arm once"),
        (put("arms", ["arm_0", "arm_0", "arm_1"]), "two arms"),
        (put("epsilon", -1.0), "epsilon"),
        (put("kept", "rates", 2.0), "rates"),
        (put("table", [[1.0]]), "2 features"),
        (put("more", 1), "more"),
    ],
)
def test_what_no_rule_could_be_is_refused(change: Callable[[dict[str, Any]], None], told: str):
    assert rcb.Rule.from_json(resealed(lambda document: None)).n_leaves == favoured_rule().n_leaves
    with pytest.raises(rcb.RcbError, match=told) as found:
        rcb.Rule.from_json(resealed(change))
    assert "\n" not in str(found.value)
    assert "Cannot read a rule" in str(found.value)


def test_a_changed_digit_and_other_files_are_refused(tmp_path: Path):
    text = favoured_rule().to_json()
    with pytest.raises(rcb.RcbError, match="digest does not match"):
        rcb.Rule.from_json(text.replace('"seed": 1', '"seed": 2'))
    with pytest.raises(rcb.RcbError, match="its format is 'rcb_bayes plan'"):
        rcb.Rule.from_json(box_plan().to_json())
    with pytest.raises(rcb.RcbError, match=r"Cannot read a rule from .*No such file"):
        rcb.Rule.load(tmp_path / "none.json")


@pytest.mark.parametrize("version", [1, 2, 4])
def test_files_of_other_versions_are_refused_with_what_to_do(version: int):
    with pytest.raises(
        rcb.RcbError, match=rf"version {version} of the format.* reads 3\. Restore .*distil the plan again"
    ):
        rcb.Rule.from_json(favoured_rule().to_json().replace('"format_version": 3', f'"format_version": {version}'))
