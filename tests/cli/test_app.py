"""The command line: what it prints, where, and with which exit code."""

import errno
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rcb_bayes import __version__
from rcb_bayes.belief import gallery, load_prior
from rcb_bayes.belief.files import parameters_of
from rcb_bayes.cli import app, demo, main, models, options
from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.market.noise import GaussianNoise
from rcb_bayes.users import Sphere

ROOT = Path(__file__).resolve().parents[2]
OWN = '''"""My own belief."""


def build_model(n_arms, *, label="x"): ...
'''


class Outcome:
    """What one call of the command line did."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err
        self.complaints = err.splitlines()


Run = Callable[..., Outcome]


@pytest.fixture(scope="module", autouse=True)
def _small_demo() -> Iterator[None]:
    """What is tested of the demo does not depend on its sizes."""
    few = {"check_worlds": 50, "audit_worlds": 50, "audit_users": 5, "run_worlds": 2, "sweep_worlds": 50}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "_PLAN_WORLDS", 300)
        patch.setattr(demo, "_SIZES", few)
        patch.setattr(demo, "_EPSILONS", (0.05,))
        patch.setattr(demo, "_REPORT_HORIZON", 50)
        yield


@pytest.fixture
def rcb(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Run the command line in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.delenv("RCB_DEBUG", raising=False)

    def run(*arguments: str) -> Outcome:
        capsys.readouterr()
        code = app.run(arguments)
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run


# --- the application -------------------------------------------------------------------------------------------------


def test_version(rcb: Run) -> None:
    outcome = rcb("--version")
    assert (outcome.code, outcome.out, outcome.err) == (0, f"rcb-bayes {__version__}\n", "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--help"], ["models", "check", "calibrate", "report", "demo", "--version"]),
        (["models", "--help"], ["NAME", "--copy-to", "--json"]),
        (["demo", "--help"], ["--seed", "--json", "--out"]),
    ],
)
def test_help_names_commands_and_options(rcb: Run, arguments: list[str], words: list[str]) -> None:
    outcome = rcb(*arguments)
    assert outcome.code == 0
    assert not outcome.err
    assert all(word in outcome.out for word in words)


def test_no_command_shows_the_help(rcb: Run) -> None:
    outcome = rcb()
    assert outcome.code == 2
    assert "Usage: rcb" in outcome.out
    assert not outcome.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["modles"], "No such command 'modles'. Did you mean 'models'? See `rcb --help`."),
        (["fly"], "No such command 'fly'. See `rcb --help`."),
        (["--sed", "1"], "No such option: --sed"),
        (["demo", "--sed", "1"], "No such option: --sed (Possible options: --seed). See `rcb demo --help`."),
        (["demo", "--seed", "x"], "Invalid value for '--seed'"),
        (["demo", "--seed", "-1"], "Invalid value for '--seed'"),
        (["demo", "--seed", "1.5"], "Invalid value for '--seed'"),
        (["demo", "--seed"], "Option '--seed' requires an argument."),
        (["demo", "extra"], "unexpected extra argument"),
        (["models", "gaussian", "extra"], "unexpected extra argument"),
        (["models", "stdent_t"], "There is no belief 'stdent_t' in the gallery. Did you mean 'student_t'?"),
        (["models", "mine.py"], "There is no file mine.py."),
        (["models", "."], ". is a folder, expected a file"),
        (["models", "--copy-to", "mine.py"], "--copy-to needs the name of a belief: rcb models student_t --copy-to"),
    ],
)
def test_bad_input_is_one_line_on_standard_error_and_exit_code_2(rcb: Run, arguments: list[str], message: str) -> None:
    outcome = rcb(*arguments)
    assert outcome.code == 2
    assert not outcome.out
    assert len(outcome.complaints) == 1
    assert outcome.err.startswith("rcb: ")
    assert message in outcome.err


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (RcbError("Expected this, got that."), 2, "rcb: Expected this, got that.\n"),
        (
            RuntimeError("broken\n  in two"),
            70,
            "rcb: internal error, RuntimeError: broken in two\nSet RCB_DEBUG=1 for the traceback, and report it.\n",
        ),
        (ValueError(), 70, "rcb: internal error, ValueError"),
        (MemoryError("word " * 1000), 70, "rcb: internal error, MemoryError: word word"),
        (KeyboardInterrupt(), 130, "rcb: stopped"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 141, ""),
    ],
)
def test_errors_become_exit_codes(
    rcb: Run, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, message: str
) -> None:
    def fail() -> None:
        raise error

    # Typer wraps both streams when a pipe breaks: put them back afterwards.
    monkeypatch.setattr(sys, "stdout", sys.stdout)
    monkeypatch.setattr(sys, "stderr", sys.stderr)
    monkeypatch.setattr(models, "gallery", fail)
    outcome = rcb("models")
    assert outcome.code == code
    assert not outcome.out
    assert message in outcome.err
    assert "Traceback" not in outcome.err
    assert len([line for line in outcome.complaints if line]) <= 2
    assert len(outcome.err) < 500


def test_debugging_shows_internal_errors_as_they_are(rcb: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(models, "gallery", fail)
    monkeypatch.setenv("RCB_DEBUG", "1")
    with pytest.raises(RuntimeError, match="broken"):
        rcb("models")
    assert rcb("modles").code == 2


def test_the_code_of_a_command_is_the_exit_code(rcb: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    class Command:
        def main(self, **_: object) -> int:
            return app.INCONCLUSIVE

    monkeypatch.setattr(app, "get_command", lambda _: Command())
    assert rcb("anything").code == 3
    with pytest.raises(SystemExit) as caught:
        main(["anything"])
    assert caught.value.code == 3


def test_python_dash_m_is_the_command_line() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rcb_bayes", "models", "stdent_t"], cwd=ROOT, capture_output=True, check=False, text=True
    )
    assert done.returncode == 2
    assert not done.stdout
    assert done.stderr.startswith("rcb: There is no belief 'stdent_t' in the gallery. Did you mean 'student_t'?")


# --- rcb models ------------------------------------------------------------------------------------------------------


def test_models_lists_the_gallery(rcb: Run) -> None:
    outcome = rcb("models")
    assert outcome.code == 0
    assert not outcome.err
    for entry in gallery().values():
        assert f"{entry.name} " in outcome.out
        assert entry.summary in outcome.out


def test_models_takes_one_line_each_that_fits(rcb: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")  # a pipe has no width
    lines = rcb("models").out.splitlines()
    assert lines[: len(gallery())] == [f"{entry.name:<18}  {entry.summary}" for entry in gallery().values()]
    assert max(len(line) for line in lines) <= 80


def test_a_summary_with_brackets_is_shown_whole(rcb: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = next(iter(gallery().values()))
    odd = type(entry)(name="odd", path=entry.path, summary="Effects beta[i, k] in [low, high].")
    monkeypatch.setattr(models, "gallery", lambda: {"odd": odd})
    assert "Effects beta[i, k] in [low, high]." in rcb("models").out


@pytest.mark.parametrize("name", ["student_t", "student-t", "Student_T", "models/student_t.py"])
def test_models_shows_one_in_full(rcb: Run, name: str) -> None:
    outcome = rcb("models", name)
    assert outcome.code == 0
    assert outcome.out.startswith(gallery()["student_t"].summary)
    assert "Applicability" in outcome.out
    assert "\nParameters of build_model:\n  n_arms = 3\n  n_features = 5\n" in outcome.out
    assert "\n  nu = 4.0\n" in outcome.out


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        (OWN, "My own belief.\n\nParameters of build_model:\n  n_arms (required)\n  label = 'x'\n"),
        ("def build_model(): ...\n", "(no description)\n\nbuild_model takes no parameters.\n"),
        ("'''Other quotes.'''\ndef build_model(): ...\n", "Other quotes.\n\nbuild_model takes no parameters.\n"),
    ],
)
def test_models_shows_an_own_file(rcb: Run, tmp_path: Path, source: str, shown: str) -> None:
    (tmp_path / "my belief.py").write_text(source, encoding="utf-8")
    outcome = rcb("models", "my belief.py")
    assert (outcome.code, outcome.out, outcome.err) == (0, shown, "")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (b"x = 1\n", "mine.py defines no function build_model(...)."),
        (b"build_model = 3\n", "build_model in mine.py must be a function, got int."),
        (b"\n1 / 0\n", "mine.py failed at line 2: ZeroDivisionError"),
        (b"def f(:\n", "mine.py failed at line 1: SyntaxError"),
        (b"\x7fELF\x00", "mine.py failed: SyntaxError"),
        (b"import sys\nsys.exit(0)\n", "mine.py failed at line 2: SystemExit: 0"),
    ],
)
def test_models_refuses_a_file_that_fails(rcb: Run, tmp_path: Path, source: bytes, message: str) -> None:
    (tmp_path / "mine.py").write_bytes(source)
    outcome = rcb("models", "mine.py", "--copy-to", "copy.py", "--json", "result.json")
    assert outcome.code == 2
    assert not outcome.out
    assert message in outcome.err
    assert len(outcome.complaints) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["mine.py"]


@pytest.mark.parametrize("target", ["mine.py", "new/folder/mine.py", "mein Glaube.py"])
def test_models_copies_a_belief(rcb: Run, tmp_path: Path, target: str) -> None:
    outcome = rcb("models", "gaussian", "--copy-to", target)
    assert outcome.code == 0
    assert outcome.err == f"Copied to {target}.\n"
    assert (tmp_path / target).read_bytes() == gallery()["gaussian"].path.read_bytes()
    assert rcb("models", target).code == 0


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("there.py", "there.py exists already. Choose another file, or remove it first."),
        ("mine", "A belief's file must end in .py, got mine. Give a name such as my_belief.py."),
        ("-", "A belief's file must end in .py, got -."),
        ("folder", "Cannot write folder: it is a folder. Give the name of a file in it."),
        ("there.py/mine.py", "Cannot write there.py/mine.py: there.py is a file, not a folder. Choose another place."),
    ],
)
def test_models_never_overwrites(rcb: Run, tmp_path: Path, target: str, message: str) -> None:
    (tmp_path / "there.py").write_text("precious", encoding="utf-8")
    (tmp_path / "folder").mkdir()
    outcome = rcb("models", "gaussian", "--copy-to", target, "--json", "result.json")
    assert outcome.code == 2
    assert not outcome.out
    assert message in outcome.err
    assert len(outcome.complaints) == 1
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["folder", "there.py"]
    assert (tmp_path / "there.py").read_text(encoding="utf-8") == "precious"


# --- JSON ------------------------------------------------------------------------------------------------------------


def test_json_to_standard_output_is_all_there_is(rcb: Run) -> None:
    outcome = rcb("models", "--json", "-")
    assert (outcome.code, outcome.err) == (0, "")
    assert json.loads(outcome.out) == [{"name": e.name, "summary": e.summary} for e in gallery().values()]

    outcome = rcb("models", "gaussian", "--json", "-", "--copy-to", "mine.py")
    result = json.loads(outcome.out)
    assert (result["name"], result["summary"]) == ("gaussian", gallery()["gaussian"].summary)
    assert list(result["parameters"]) == list(parameters_of(gallery()["gaussian"].path))
    assert result["parameters"]["n_arms"] == 3
    assert result["parameters"]["scale"] == 0.5
    assert result["parameters"]["arms"] is None
    assert result["required"] == []
    assert outcome.err == "Copied to mine.py.\n"


@pytest.mark.parametrize("target", ["result.json", "new/folder/result.json"])
def test_json_to_a_file_beside_the_text(rcb: Run, tmp_path: Path, target: str) -> None:
    outcome = rcb("models", "--json", target)
    assert outcome.code == 0
    assert "gaussian" in outcome.out
    assert len(json.loads((tmp_path / target).read_text(encoding="utf-8"))) == len(gallery())


def test_json_has_defaults_as_values_and_names_what_is_required(rcb: Run, tmp_path: Path) -> None:
    more = "pair=(1, 2.5), flag=True, top=float('inf'), kind=dict): ..."
    (tmp_path / "mine.py").write_text(OWN.replace("): ...", f", {more}"), encoding="utf-8")
    assert json.loads(rcb("models", "mine.py", "--json", "-").out) == {
        "name": "mine",
        "summary": "My own belief.",
        "parameters": {
            "n_arms": None,
            "label": "x",
            "pair": [1, 2.5],
            "flag": True,
            "top": "inf",
            "kind": "<class 'dict'>",
        },
        "required": ["n_arms"],
    }


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("folder", "Cannot write folder: it is a folder. Give the name of a file in it."),
        ("note.txt/x.json", "Cannot write note.txt/x.json: note.txt is a file, not a folder. Choose another place."),
        ("note.txt/deep/x.json", "note.txt is a file, not a folder."),
    ],
)
@pytest.mark.parametrize("command", [["models"], ["models", "gaussian"], ["demo"]])
def test_a_target_that_cannot_be_written_is_refused_before_any_work(
    rcb: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], target: str, message: str
) -> None:
    def work(*_: object, **__: object) -> None:
        raise AssertionError("work was done before the target was checked")

    monkeypatch.setattr(models, "gallery", work)
    monkeypatch.setattr(models, "find_model", work)
    monkeypatch.setattr(demo, "_willing", work)
    (tmp_path / "folder").mkdir()
    (tmp_path / "note.txt").write_text("", encoding="utf-8")
    outcome = rcb(*command, "--json", target)
    assert (outcome.code, outcome.out) == (2, "")
    assert message in outcome.err
    assert len(outcome.complaints) == 1


@pytest.mark.parametrize("target", ["result.json", "sub/result.json"])
def test_a_forbidden_target_is_refused(rcb: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    monkeypatch.setattr(options.os, "access", lambda *_: False)
    outcome = rcb("models", "--json", target)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == f"rcb: Cannot write {target}: permission denied. Choose another place.\n"
    assert not list(tmp_path.iterdir())


def test_a_disk_that_fills_up_meanwhile_is_bad_input_too(rcb: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    outcome = rcb("models", "--json", "result.json")
    assert outcome.code == 2
    assert outcome.err == "rcb: Cannot write result.json: No space left on device. Choose another place.\n"


def test_a_tilde_left_by_the_shell_is_the_home_folder(
    rcb: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    assert rcb("models", "--json=~/result.json").code == 0
    assert (tmp_path / "home" / "result.json").is_file()


# --- rcb demo --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Shown:
    """One run of the demo: what it printed, its figures, its page and where that was put."""

    outcome: Outcome
    result: dict[str, Any]
    page: str
    target: Path


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    folder = tmp_path_factory.mktemp("demo")
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(folder)
        patch.setenv("COLUMNS", "200")
        code = app.run(("demo", "--json", "new/demo.json", "--out", "pages"))
    target = folder / "pages" / "report.html"
    return Shown(
        Outcome(code, out.getvalue(), err.getvalue()),
        json.loads((folder / "new" / "demo.json").read_text(encoding="utf-8")),
        target.read_text(encoding="utf-8"),
        target,
    )


def test_demo_prints_the_figures(shown: Shown) -> None:
    outcome = shown.outcome
    assert (outcome.code, outcome.err) == (0, "")
    for figure in (
        "listening service",
        "3 arms, 2 features",
        "archive",
        "N = 26,288",
        "L = 17.0",
        "50,000",
    ):
        assert figure in outcome.out


def test_demo_fits_80_columns(rcb: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = [line.rstrip() for line in rcb("demo").out.splitlines()]
    assert [line for line in lines if len(line) > 80 and not line.endswith(".html")] == []  # but for the path


def test_demo_compares_the_sampled_plan_with_the_theorem_s(shown: Shown) -> None:
    outcome, result = shown.outcome, shown.result
    plan = result["sampled"]
    assert (plan["notion"], plan["personalised"], plan["n_per_arm"], plan["feasible"]) == ("user", True, 30, True)
    assert plan["exploration_rate"] > 0.1
    assert f"N = 30 samples per arm, mean rate {plan['exploration_rate']:.3f}" in outcome.out
    assert f"{100 * plan['share_free']:.1f} % lose at most epsilon anyway and need no subsidy" in outcome.out
    length = plan["expected_cold_start"]
    times = float(f"{result['expected_cold_start'] / length:.2g}")
    assert f"{length / 500:.1f} % of the horizon and some {times:,.0f} times shorter than the theorem's" in outcome.out
    theorem, sampled, after = (
        outcome.out.index(words) for words in ("The paper's plan", "A plan by sampling", "\nNext: ")
    )
    assert theorem < sampled < after
    assert "`rcb report NAME`" in outcome.out[after:]


def test_demo_ends_with_a_page_to_open(rcb: Run, shown: Shown) -> None:
    assert f"  {shown.target}\n" in shown.outcome.out
    assert "<title>May I explore here? listeners</title>" in shown.page
    assert rcb("demo", "--out", str(shown.target / "x")).code == 2


def test_demo_is_a_function_of_its_seed(rcb: Run, shown: Shown) -> None:
    """And ``--json -`` prints what is written to a file, and nothing else."""
    again = json.loads(rcb("demo", "--seed", "1", "--json", "-", "--out", "pages").out)
    assert Path("pages/report.html").read_text(encoding="utf-8") == shown.page
    other = json.loads(rcb("demo", "--seed", "4", "--json", "-", "--out", "pages").out)
    assert again == shown.result != other | {"seed": 1}
    assert other["seed"] == 4


def test_demo_writes_the_figures_it_prints(shown: Shown) -> None:
    printed, result = shown.outcome, shown.result
    assert result["seed"] == 1
    assert result["phi0"] == pytest.approx(np.mean(np.linspace(-1, 1, 201) ** 2))
    assert f"N = {result['n_per_arm']:,} " in printed.out
    for arm, willing in result["willing"].items():
        line = next(line for line in printed.out.splitlines() if line.startswith(arm))
        assert line.split()[2:] == [f"{willing['share']:.3f}", "±", f"{willing['mcse']:.3f}"]


def test_demo_has_users_who_would_follow_one_arm_only(shown: Shown) -> None:
    assert [willing["share"] for willing in shown.result["willing"].values()] == [1.0, 0.0, 0.0]


def test_shares_of_willing_users_are_those_of_the_sphere() -> None:
    # Half of the users have features that sum to less than zero and prefer the other arms; those within epsilon of
    # zero accept either. u = x'1/sqrt(5) has density 3/4 (1 - u^2) on [-1, 1], so Pr(u <= c) = 1/2 + (3c - c^3)/4.
    c = 0.05 / 5**0.5
    truth = 0.5 + (3 * c - c**3) / 4
    favoured = Market(prior=load_prior("setting_4"), covariates=Sphere(5), noise=GaussianNoise(0.05))
    found = demo._willing(favoured, seed=1)
    assert len(found) == 5
    for willing in found.values():
        assert abs(willing["share"] - truth) < 4.5 * willing["mcse"]
        assert abs(willing["share"] - 0.55) > 4.5 * willing["mcse"]  # a wrong share is told apart


# --- where it is written to ------------------------------------------------------------------------------------------


def process(*words: str, out: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    """The command line as a process of its own; ``out`` is a device for what it prints."""
    with open(out or os.devnull, "w") as file:
        return subprocess.run(
            [sys.executable, "-m", "rcb_bayes", *words],
            stdout=file if out else subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])} | environment,
        )


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no full disk at hand")
@pytest.mark.parametrize("words", [("words",), ("models", "--json", "-")])
def test_a_full_disk_is_told(words: tuple[str, ...]) -> None:
    done = process(*words, out="/dev/full")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "No space left on device. Make room, and run it again." in done.stderr


def test_a_terminal_without_a_letter_gets_another_one() -> None:
    """Tables of Rich are written as the terminal has it."""
    told = "from rcb_bayes.cli import app; from rich.console import Console; app._prepare(); Console().print('± 1, 中')"
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2]), "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=False, env=environment)
    assert (done.returncode, done.stdout) == (0, "+- 1, ?\n"), done.stderr


@pytest.mark.parametrize("where", ["os._exit(0)\ndef build_model(): ...", "def build_model(): os._exit(0)"])
def test_a_belief_that_ends_the_process_does_not_pass(where: str, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(f"import os\n{where}\n", encoding="utf-8")
    done = process("check", str(tmp_path / "mine.py"), "--covariates", "sphere", "--noise", "0.3")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "rcb: the process was ended from inside, by code of the belief.\n"


def test_a_copy_is_whole_or_not_there(rcb: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def half(self: Path, data: bytes) -> int:
        with self.open("wb") as file:
            file.write(data[:100])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", half)
    done = rcb("models", "student_t", "--copy-to", "mine.py")
    assert done.code == 2
    assert "No space left on device" in done.err
    assert list(tmp_path.iterdir()) == []


def test_controls_do_not_reach_the_terminal(rcb: Run) -> None:
    done = rcb("models", "\x1b[31mred\x9b2J")
    assert done.code == 2
    assert r"\x1b[31mred\x9b2j" in done.err.lower()
    assert "\x1b" not in done.err


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("Use missing='drop', 'mean' or 'indicator'.", "Use --missing drop, mean or indicator."),
        ("Use knows='level', or less.", "Use --knows level, or less."),
        ("Use personalised=True, or knows='level'.", "Use --personalised, or --knows level."),
        ("Use covariates=Empirical(rows), or personalised=False.", "Use --covariates users.csv, or --uniform."),
        ("With eliminate=.", "With --eliminate."),
        ("Write seed=1, or another.", "Write --seed 1, or another."),
        ("Use engine='auto'.", "Use engine='auto'."),  # no option of this command
        ("An interval [low=0.1, high].", "An interval [low=0.1, high]."),
    ],
)
def test_remedies_are_options_where_there_is_one(said: str, told: str) -> None:
    command = app._command().commands["calibrate"]
    assert options.as_options(said, command) == told
