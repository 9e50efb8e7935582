"""``rcb evaluate``: the figures of the Python interface, and what a log cannot tell."""

import json
from pathlib import Path

import pandas as pd
import pytest

import rcb_bayes
from tests.cli.command_line import Run, runner
from tests.evaluation.adaptive_logs import adaptive_log, market

rcb = runner("evaluate")
BELIEF = """
import pymc as pm

def build_model(n_arms=2, n_features=2):
    with pm.Model(coords={"arm": ["arm_0", "arm_1"], "feature": ["feature_0", "feature_1"]}) as model:
        pm.Normal("beta", mu=[[0.5, 0.2], [0.2, 0.2]], sigma=0.5, dims=("arm", "feature"))
    return model
"""


@pytest.fixture
def log(tmp_path: Path) -> str:
    adaptive_log(1, horizon=200, multiple=1.0)[0].to_csv(tmp_path / "log.csv", index=False)
    (tmp_path / "belief.py").write_text(BELIEF, encoding="utf-8")
    return "log.csv"


ASKED = ("belief.py", "--covariates", "ball", "--noise", "0.5", "--log", "log.csv")


def test_values_are_told_and_written(rcb: Run, log: str, tmp_path: Path) -> None:
    done = rcb(*ASKED, "--stage", "exploit", "--json", "told.json")
    assert (done.code, done.err) == (0, "")
    assert "everybody told arm_0" in done.out
    told = json.loads((tmp_path / "told.json").read_text(encoding="utf-8"))
    table = adaptive_log(1, horizon=200, multiple=1.0)[0]
    own = rcb_bayes.evaluate(table, "arm_1", market(), stages="exploit")
    assert told["arm_1"]["values"]["adaptive"]["value"] == pytest.approx(own["value"].sel(estimator="adaptive").item())


def test_what_a_log_cannot_tell(rcb: Run, log: str) -> None:
    done = rcb(*ASKED, "--policy", "arm_1")
    assert done.code == 2
    assert "stages='exploit'" in done.err


def test_an_arm_that_was_never_told_has_no_interval(rcb: Run, log: str, tmp_path: Path) -> None:
    table = pd.read_csv(tmp_path / "log.csv")
    table[(table["stage"] == "exploit") & (table["arm"] == "arm_0")].to_csv(tmp_path / "log.csv", index=False)
    done = rcb(*ASKED, "--policy", "arm_1", "--json", "told.json")
    assert (done.code, done.err) == (0, "")
    assert done.out.count("says nothing: no round was told that") == 3
    assert "nan" not in done.out
    assert json.loads((tmp_path / "told.json").read_text(encoding="utf-8"))["arm_1"]["values"]["ips"]["lower"] is None
