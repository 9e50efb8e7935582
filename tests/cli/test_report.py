"""``rcb report``: the page, the verdict as exit code, the command that makes it again."""

import json
import shlex
from pathlib import Path

import pytest

from rcb_bayes.cli.report import check_page, quicker
from rcb_bayes.errors import RcbError
from rcb_bayes.reporting import ReportSizes, swept
from tests.cli.command_line import Run, runner

rcb = runner("report")
simulate = runner("simulate")
BELIEF = ("setting_4", "--set", "n_arms=3", "--set", "n_features=2")
SMALL = ("--n-per-arm", "10", "--horizon", "60", "--plan-worlds", "100", "--audit-worlds", "200")
FEW = ("--users", "5", "--worlds", "2")


@pytest.fixture(autouse=True)
def few_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tested here does not depend on how many values of epsilon the page can be turned to."""
    monkeypatch.setattr(swept, "_MULTIPLES", (1.0, 2.0))
    monkeypatch.setattr(swept, "_AROUND", (1.0,))


def test_the_page_is_written_and_the_verdict_is_the_exit_code(rcb: Run) -> None:
    outcome = rcb(*BELIEF, *SMALL, *FEW, "--no-guard", "--seed", "3", "--json", "report.json", "--out", "pages")
    result = json.loads(Path("report.json").read_text(encoding="utf-8"))
    assert outcome.code == {"pass": 0, "fail": 1, "inconclusive": 3}[result["verdict"]]
    assert outcome.line("Report: ") == "Report: pages/report.html, to open in a browser"
    assert f"{result['verdict']}: {result['answer'][0]}" in outcome.lines
    assert result["page"] == "pages/report.html"
    assert result["plan"]["n_per_arm"] == 10
    assert result["regret"] > 0
    page = Path("pages/report.html").read_text(encoding="utf-8")
    assert result["answer"][0] in page


def test_the_command_on_the_page_makes_it_again(rcb: Run) -> None:
    assert not rcb(*BELIEF, *SMALL, *FEW, "--no-guard", "--out", "first.html").err
    page = Path("first.html").read_text(encoding="utf-8")
    start, end = page.index("<pre><code>") + 11, page.index("</code></pre>")
    words = shlex.split(page[start:end].replace("&#x27;", "'"))
    assert words[:3] == ["rcb", "report", "setting_4"]
    assert "--no-guard" in words
    assert "--out" not in words
    rcb(*words[2:], "--out", "second.html")
    assert Path("second.html").read_text(encoding="utf-8") == page


def test_a_quick_page_has_the_same_verdict_and_leaves_out_what_takes_long(rcb: Run) -> None:
    given = (*BELIEF, *SMALL, *FEW, "--no-guard", "--json", "found.json")
    rcb(*given, "--out", "whole.html")
    whole = json.loads(Path("found.json").read_text(encoding="utf-8"))
    rcb(*given, "--quick", "--out", "quick.html")
    quick = json.loads(Path("found.json").read_text(encoding="utf-8"))
    assert (quick["verdict"], quick["plan"], quick["audit"]) == (whole["verdict"], whole["plan"], whole["audit"])
    page = Path("quick.html").read_text(encoding="utf-8")
    assert "Users could be paid instead" not in page
    assert "Users could be paid instead" in Path("whole.html").read_text(encoding="utf-8")
    assert quicker(ReportSizes(audit_worlds=70), epsilon=0.05) == ReportSizes(
        audit_worlds=70,
        knowledge_worlds=0,
        radius_worlds=0,
        payment_worlds=0,
        n_multiples=(),
        epsilons=(0.0, 0.025, 0.05, 0.1, 0.2),
    )
    assert quicker(ReportSizes(), epsilon=0.0).epsilons == (0.0, 0.025, 0.05, 0.1, 0.2)


def test_json_alone_is_all_that_is_printed(rcb: Run) -> None:
    outcome = rcb(*BELIEF, *SMALL, *FEW, "--uniform", "--json", "-")
    result = json.loads(outcome.out)
    assert (outcome.code, result["verdict"], result["audit"], result["regret"]) == (1, "fail", None, None)
    assert Path("rcb_out/report.html").exists()


def test_a_saved_plan_and_saved_runs_are_reported(simulate: Run, rcb: Run) -> None:
    from rcb_bayes.cli import app

    app.run(["calibrate", *BELIEF, "--n-per-arm", "10", "--worlds", "100", "--out", "plan"])
    given = ("--plan", "plan/plan.json")
    assert simulate(*BELIEF, *given, "--horizon", "50", "--worlds", "2", "--out", "runs").code == 0
    outcome = rcb(*BELIEF, *given, "--runs", "runs/runs.nc", "--audit-worlds", "200", *FEW)
    assert "--audit-worlds is settled by the plan" in outcome.err
    outcome = rcb(*BELIEF, *given, "--runs", "runs/runs.nc", "--horizon", "60", *FEW)
    assert outcome.code in (0, 1, 3)
    assert "2 worlds of 50 rounds" in Path("rcb_out/report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*BELIEF, "--notion", "usr"), "Did you mean 'user'"),
        ((*BELIEF, "--plan", "none.json"), "Cannot read a plan"),
        ((*BELIEF, "--runs", "none.nc"), "Cannot read runs from none.nc"),
        ((*BELIEF, "--out", "note.txt/x"), "note.txt is a file, not a folder"),
        ((*BELIEF, "--out", "note.txt/x.html"), "note.txt is a file, not a folder"),
        ((*BELIEF, "--worlds", "0"), "Invalid value for '--run-worlds' / '--worlds'"),
        (("no_such_belief",), "no_such_belief"),
        ((*BELIEF, "--noise", "logit"), "--covariates users.csv"),
    ],
)
def test_bad_input_is_one_line(rcb: Run, words: tuple[str, ...], message: str) -> None:
    Path("note.txt").write_text("", encoding="utf-8")
    outcome = rcb(*words)
    assert outcome.code == 2
    assert message in outcome.err
    assert len(outcome.err.splitlines()) == 1
    assert not outcome.out


def test_a_folder_or_a_file_may_be_named(tmp_path: Path) -> None:
    assert check_page(tmp_path / "pages") == tmp_path / "pages" / "report.html"
    assert check_page(tmp_path / "page.HTML") == tmp_path / "page.HTML"
    (tmp_path / "odd.html").mkdir()
    with pytest.raises(RcbError, match="it is a folder"):
        check_page(tmp_path / "odd.html")
