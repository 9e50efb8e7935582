"""``rcb elicit``: answers from a table or asked for, a belief file that other commands take, bad input."""

import io
import json
from pathlib import Path

import numpy as np
import pytest

import rcb_bayes
from rcb_bayes.cli.elicit import questions
from tests.cli.command_line import Run, runner

rcb = runner("elicit")

TABLE = """expert,arm,rival,age,q10,q50,q90
ann,old,,0.2,0.4,0.5,0.6
ann,old,,0.8,0.3,0.5,0.7
ann,new,old,0.2,-0.4,-0.1,0.2
ann,new,old,0.8,-0.3,0.1,0.5
bob,old,,0.2,0.4,0.5,0.6
bob,old,,0.8,0.3,0.5,0.7
bob,new,old,0.2,-0.2,0.1,0.4
bob,new,old,0.8,-0.1,0.3,0.7
"""


@pytest.fixture
def answers(tmp_path: Path) -> str:
    (tmp_path / "answers.csv").write_text(TABLE, encoding="utf-8")
    return "answers.csv"


def test_a_table_becomes_a_belief_file(rcb: Run, answers: str, tmp_path: Path) -> None:
    done = rcb(answers, "--weights", "ann=2,bob=1", "--out", "mine.py", "--json", "told.json")
    assert (done.code, done.err) == (0, "")
    assert "mixture of Gaussians" in done.out
    assert "age=0.2" in done.out
    prior = rcb_bayes.load_prior(tmp_path / "mine.py")
    direct = rcb_bayes.Prior.from_quantiles(tmp_path / answers, weights={"ann": 2.0, "bob": 1.0})
    np.testing.assert_allclose(prior.mean, direct.mean, atol=1e-9)
    told = json.loads((tmp_path / "told.json").read_text(encoding="utf-8"))
    assert told["users"][0]["user"] == {"age": 0.2}
    assert told["users"][0]["arms"]["old"]["q50"] == pytest.approx(0.5)


def test_one_expert(rcb: Run, answers: str) -> None:
    done = rcb(answers, "--expert", "bob", "--json", "-")
    assert json.loads(done.out)["users"][1]["arms"]["new"]["q50"] == pytest.approx(0.8)


def test_people_are_asked(rcb: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second kind's first answers contradict one another, and are asked for again."""
    first, second = "0.5\n0.4\n0.6\n60\n0.1\n0.5\n", "0.5\n0.3\n0.7\n40\n0.2\n0.3\n40\n-0.1\n0.3\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(first + second))
    done = rcb("--arms", "old,new", "--user", "age=0.2", "--user", "age=0.8", "--expert", "eve", "--out", "asked.py")
    assert done.code == 0
    assert "for how many is 'new' better than 'old'?" in done.out
    assert "cross" in done.err
    assert "Once more" in done.err
    prior = rcb_bayes.load_prior(tmp_path / "asked.py")
    assert prior.arms == ("old", "new")
    assert '"expert": "eve"' in (tmp_path / "asked.py").read_text(encoding="utf-8")


def test_answers_become_quantiles() -> None:
    def asked(*values: float, rival: str | None = "old", link: str = "identity") -> list[tuple[float, float]]:
        given = iter(values)
        return questions("new", rival, like="age=1", link=link, ask=lambda text: next(given))

    assert asked(60, 0.1, 0.5) == [(pytest.approx(0.4), 0.0), (0.5, 0.1), (0.9, 0.5)]
    assert asked(100, 0.1, 0.5) == [(0.5, 0.1), (0.9, 0.5)]
    assert asked(0.5, 0.1, 0.9, rival=None) == [(0.5, 0.5), (0.1, 0.1), (0.9, 0.9)]
    assert asked(50, 30, 70, rival=None, link="logit") == [(0.5, 0.5), (0.1, 0.3), (0.9, 0.7)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Give a table of answers, or --arms"),
        (["--arms", "old", "--user", "age=1"], "at least two different names"),
        (["--arms", "old,new", "--user", "age"], "Expected name=number"),
        (["--arms", "old,new", "--user", "age=x"], "--user takes numbers"),
        (["--arms", "old,new", "--user", "age=1", "--user", "sex=1"], "the same covariates"),
        (["nothing.csv"], "nothing.csv"),
        (["answers.csv", "--out", "belief.txt"], "ends in .py"),
        (["answers.csv", "--weights", "carl=1"], "'carl' is none of them"),
        (["answers.csv", "--link", "log"], "link must be one of"),
    ],
)
def test_bad_input(rcb: Run, answers: str, arguments: list[str], message: str) -> None:
    done = rcb(*arguments)
    assert done.code == 2
    assert message in done.err
