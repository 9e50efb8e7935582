"""The study in small: tables, a summary, files, and what is refused."""

from pathlib import Path

import pytest

from rcb_bayes.errors import RcbError
from rcb_bayes.studies.actg import ActgResult, Sizes, Trial, run_actg

SMALL = Sizes(n_per_arm=3, n_worlds=60, audit_worlds=50, n_orders=2, n_rounds=40, n_halves=2, n_learning_halves=0)


@pytest.fixture(scope="module")
def found(made_up: Trial, tmp_path_factory: pytest.TempPathFactory) -> ActgResult:
    folder = tmp_path_factory.mktemp("study")
    result = run_actg(made_up, beliefs=["elicited"], epsilons=[0.5], sizes=SMALL, folder=folder, seed=1)
    again = run_actg(made_up, beliefs=["elicited"], epsilons=[0.5], sizes=SMALL, folder=folder, seed=1)
    assert again.summary() == result.summary()  # of the parts that were kept
    return result


def test_every_policy_has_a_value_with_an_interval(found: ActgResult) -> None:
    names = set(found.values["policy"])
    assert {"always zdv", "uniform", "belief alone", "greedy", "Thompson", "RCB"} <= names
    lower, value, upper = (found.values[name].to_numpy() for name in ("lower", "value", "upper"))
    assert (lower < value).all()
    assert (value < upper).all()
    assert len(found.checks) == 4
    assert set(found.audits["notion"]) == {"proof", "definition", "user"}
    assert set(found.coverage["n"]) == {2}
    assert "always zdv_ddi" in found.summary()


def test_a_result_is_saved_and_read_back(found: ActgResult, tmp_path: Path) -> None:
    found.save(tmp_path / "actg.json")
    assert ActgResult.load(tmp_path / "actg.json").summary() == found.summary()
    text = (tmp_path / "actg.json").read_text(encoding="utf-8").replace('"n": 2', '"n": 3', 1)
    (tmp_path / "changed.json").write_text(text, encoding="utf-8")
    with pytest.raises(RcbError, match="digest"):
        ActgResult.load(tmp_path / "changed.json")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"beliefs": ["sure"]}, "no belief 'sure'"),
        ({"beliefs": []}, "Expected a belief or more"),
        ({"epsilons": [-0.1]}, "epsilons of at least 0"),
        ({"epsilons": []}, "epsilons of at least 0"),
        ({"sizes": Sizes(n_orders=1)}, "n_orders"),
    ],
)
def test_what_cannot_be_studied_is_refused(made_up: Trial, words: dict, message: str) -> None:
    with pytest.raises(RcbError, match=message):
        run_actg(made_up, **words)


@pytest.mark.slow
def test_workers_do_not_change_the_answer(made_up: Trial) -> None:
    one = run_actg(made_up, beliefs=["sceptical"], epsilons=[0.5], sizes=SMALL, seed=2)
    two = run_actg(made_up, beliefs=["sceptical"], epsilons=[0.5], sizes=SMALL, workers=2, seed=2)
    assert one.summary() == two.summary()
