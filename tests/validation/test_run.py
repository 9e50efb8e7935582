"""A validation as a whole: its verdict, its files, and engines that are off."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes.errors import RcbError
from rcb_bayes.posterior.engines import ENGINES
from rcb_bayes.posterior.results import PosteriorBatch
from rcb_bayes.validation import calibrating, twins
from rcb_bayes.validation.cases import CASES, make_bare
from rcb_bayes.validation.mechanism_twins import TwoArms, mechanism_findings
from rcb_bayes.validation.result import LEVEL
from tests.cli.command_line import Run, runner

rcb_validate = runner("validate")


class Crooked:
    """An engine whose means are off by a share of their sd."""

    def __init__(self, inner: Any, share: float) -> None:
        self.inner, self.share, self.name = inner, share, inner.name

    def fit(self, data: Any, **asked: Any) -> PosteriorBatch:
        found = self.inner.fit(data, **asked | {"covariance": True})
        sd = np.sqrt(np.diagonal(found.covariance, axis1=1, axis2=2)).reshape(found.mean.shape)
        return replace(found, mean=found.mean + self.share * sd)

    def draw(self, *given: Any, **asked: Any) -> Any:
        return self.inner.draw(*given, **asked)


@pytest.fixture
def crooked(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(*given: Any, **asked: Any) -> Crooked:
        return Crooked(make_bare(*given, **asked), 0.1)

    monkeypatch.setattr(calibrating, "make_bare", make)
    monkeypatch.setattr(twins, "make_bare", make)


@pytest.mark.parametrize("seed", range(3))
def test_the_exact_engine_passes_at_any_seed(seed: int):
    found = rcb.validate(engines=["exact"], quick=True, seed=seed)
    assert found.verdict == "pass", found.table()
    assert found.parts == ("exact",)


@pytest.mark.usefixtures("crooked")
def test_a_bias_of_a_tenth_of_an_sd_is_caught_in_the_exact_engine():
    found = rcb.validate(engines=["exact"], quick=True, seed=1)
    assert found.verdict == "fail"
    assert {"bias", "twin: mean"} <= {one.test for one in found.failures}


def test_every_engine_has_a_case_in_the_quick_validation_and_a_twin():
    assert {case.engine for case in CASES if case.in_quick} == set(ENGINES) == set(twins.TWINS)


def test_the_same_seed_gives_the_same_answer_and_files_say_it(tmp_path: Path):
    one, two = (rcb.validate(engines=["exact"], quick=True, seed=7) for _ in range(2))
    assert one.to_dict()["findings"] == two.to_dict()["findings"]
    one.save(tmp_path / "validation.json")
    one.save(tmp_path / "validation.html")
    read = json.loads((tmp_path / "validation.json").read_text(encoding="utf-8"))
    assert read["verdict"] == "pass"
    assert read["level"] == LEVEL
    assert all(error["caught"] for row in read["findings"] for error in row["planted"])
    page = (tmp_path / "validation.html").read_text(encoding="utf-8")
    assert "independent arms" in page
    assert "src=" not in page
    assert page.count("<tr>") > len(one.findings)
    with pytest.raises(RcbError, match=r"saved as .html or .json, got 'validation.txt'"):
        one.save(tmp_path / "validation.txt")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"engines": ["exakt"]}, r"no engine 'exakt'. Did you mean 'exact'\?"),
        ({"engines": "exact"}, "list of names"),
        ({"engines": []}, "list of names"),
        ({"seed": -1}, "seed"),
    ],
)
def test_bad_requests(given: dict[str, Any], message: str):
    with pytest.raises(RcbError, match=message):
        rcb.validate(**given)


def test_an_engine_of_ones_own_is_validated(monkeypatch: pytest.MonkeyPatch):
    """It meets the beliefs of ``importance``. One that answers with the belief itself overlooks the data."""

    class Prior:
        name = "own"

        def __init__(self, prior: Any) -> None:
            self.prior = prior

        def fit(self, data: Any, **_: Any) -> PosteriorBatch:
            m, size = data.n_sets, self.prior.n_arms * self.prior.n_features
            return PosteriorBatch(
                mean=np.zeros((m, self.prior.n_arms, self.prior.n_features)),
                covariance=np.tile(0.5 * np.eye(size), (m, 1, 1)),
                vouched=np.ones(m, dtype=bool),
                engine=np.full(m, "own", dtype=object),
                diagnostics={},
            )

        def draw(self, data: Any, n: int, *, rng: np.random.Generator) -> np.ndarray:
            return rng.normal(0.0, 0.7, (data.n_sets, n, self.prior.n_arms, self.prior.n_features))

    monkeypatch.setitem(ENGINES, "own", lambda prior, noise, seed: Prior(prior))
    found = rcb.validate(engines=["own"], quick=True, seed=1)
    assert found.parts == ("own",)
    failed = {one.test for one in found.failures}
    assert "data" in failed
    assert "bias" not in failed


# --- gaps, rates, audits ---------------------------------------------------------------------------------------------


def test_the_closed_form_of_two_arms_is_the_first_reading_s():
    """Prior gap .30, sd of the posterior mean .1885, epsilon .05."""
    variance = 0.1885**2  # known exactly after many samples
    one = TwoArms(means=(0.3, 0.0), variance=variance, sigma=1e-6, n=1000)
    assert 1 / one.rate("proof") == pytest.approx(5.59, abs=0.01)
    assert 1 / one.rate("user") == pytest.approx(35.5, abs=0.1)
    assert one.margin(one.rate("proof")) == pytest.approx(-0.223, abs=0.001)
    assert one.margin(one.rate("user")) == pytest.approx(-0.05)


def test_gaps_of_two_arms_hold_and_a_planted_error_is_caught():
    findings = mechanism_findings("gaps", np.random.SeedSequence(1), quick=True)
    assert all(one.p_value is not None and one.p_value > 1e-5 for one in findings)
    assert all(error.p_value < 1e-6 for one in findings for error in one.planted)


# --- command line ----------------------------------------------------------------------------------------------------


def test_the_command_writes_a_page_and_exits_by_the_verdict(rcb_validate: Run, tmp_path: Path):
    done = rcb_validate("--quick", "--engine", "exact", "--out", "found")
    assert done.code == 0, done.err
    assert "Verdict: pass" in done.lines
    assert (tmp_path / "found" / "validation.html").exists()


@pytest.mark.usefixtures("crooked")
def test_the_command_fails_where_an_engine_is_off(rcb_validate: Run):
    done = rcb_validate("--quick", "--engine", "exact", "--json", "-")
    assert done.code == 1
    assert json.loads(done.out)["verdict"] == "fail"


def test_an_unknown_engine_is_refused(rcb_validate: Run):
    done = rcb_validate("--engine", "bogus")
    assert done.code == 2
    assert done.err.count("\n") == 1


# --- slow ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_quick_validation_passes():
    found = rcb.validate(quick=True, seed=2)
    assert found.verdict == "pass", found.summary()
    assert not found.missed


@pytest.mark.slow
@pytest.mark.usefixtures("crooked")
@pytest.mark.parametrize("engine", [name for name in ENGINES if name != "exact"])
def test_a_bias_of_a_tenth_of_an_sd_is_caught_in_every_engine(engine: str):
    found = rcb.validate(engines=[engine], quick=True, seed=3)
    assert {"bias", "twin: mean"} <= {one.test for one in found.failures}
