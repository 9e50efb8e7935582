"""The command line against whatever is typed: no traceback, no internal error, nothing drawn for what is refused.

A seeded generator writes command lines of known and unknown words, numbers of every size, odd names and files. The
commands run in this process up to the point where sampling would begin, and some of them, at small sizes, to their end.
"""

import random
import string
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from rcb_bayes.auditing import logs
from rcb_bayes.auditing import run as audits
from rcb_bayes.cli import app
from rcb_bayes.cli import reproduce as reproducing
from rcb_bayes.errors import RcbError
from rcb_bayes.gaps import assumptions, stages
from rcb_bayes.planning import calibration
from rcb_bayes.running import simulation
from rcb_bayes.studies.paper import reproduction

pytestmark = pytest.mark.slow

N_CASES, N_RUN = 1500, 120
CODES = (0, 1, 2, 3)
LONG = 8000
BEGINS = "the work begins here"

NUMBERS = (
    "0", "1", "2", "3", "7", "50", "-1", "1e3", "1e30", "1e308", "1e309", "-1e308", "1e-308", "5e-324", "nan", "inf",
    "-inf", "0x10", "1_000", "1,5", ".5", "0.05", "1e-9", "2147483648", "9223372036854775808", "18446744073709551616",
    "1" + "0" * 40, "1" + "0" * 5000, "-9223372036854775809", "true", "", " ", "½", "٣",
)  # fmt: skip
NAMES = (
    "", " ", "-", "--", ".", "..", "/", "~", "x" * 300, "x/" * 3000, "a\nb", "a\tb", "ü", "\udcff", "💊",
    "note.txt", "note.txt/x", "folder", "users.csv", "broken.csv", "empty.csv", "mine.py", "fails.py", "plan.json",
    "none.json", "/dev/null", "/dev/null/x", "/proc/x/y", "con", "*", "$HOME", "%s", "{0}", "[bold]x[/]",
)  # fmt: skip
BELIEFS = ("setting_4", "gaussian", "setting_1", "mine.py", "fails.py", "Setting-4", "models/gaussian.py", "stdent_t")
SETTINGS = ("n_arms", "n_features", "mean", "scale", "variance", "arms", "features", "x", "n arms", "")
VALUES = (
    "2", "3", "[0.5, 0.1]", "[[1]]", "None", "True", "'a'", "{}", "(", "[" * 200, "['a','b']", "['a','a']", "1e400",
    "9" * 30, "-3", "0.0", "nan", "lambda: 1", "__import__('os')", "[1e308, -1e308]",
)  # fmt: skip
WORDS = {
    "--notion": ("user", "proof", "definition", "usr", ""),
    "--inflation": ("none", "log", "sqrt", "linear", "cubic"),
    "--clock": ("relative", "global", "x"),
    "--feed": ("all", "last", "x"),
    "--spread": ("posterior", "paper", "x"),
    "--covariates": ("sphere", "ball", "gaussian", "users.csv", "broken.csv", "empty.csv", "shere", "users.CSV"),
    "--noise": ("logit", "logt", "0.3", "0", "-1", "1e49", "1e51"),
}
NUMERIC = (
    "--n-per-arm", "--worlds", "--horizon", "--users", "--plan-worlds", "--audit-worlds", "--seed", "--epsilon",
    "--tau", "--rho", "--spread-multiple",
)  # fmt: skip
PATHS = ("--plan", "--log", "--runs", "--json", "--out", "--data", "--copy-to")
FLAGS = (
    "--guard", "--no-guard", "--personalised", "--uniform", "--until-decided", "--fast", "--resume", "--version",
    "--help", "--wat",
)  # fmt: skip
COMMANDS = ("check", "calibrate", "simulate", "audit", "report", "models", "reproduce")
MINE = """
import pymc as pm


def build_model(n_features=2, features=None):
    with pm.Model(coords={"arm": ["old", "new"], "feature": features or ["a", "b"][:n_features]}) as model:
        pm.Normal("beta", 0.0, 1.0, dims=("arm", "feature"))
    return model
"""


class Begins(RcbError):
    """Where sampling would begin."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("RCB_DEBUG", raising=False)
    files = {
        "note.txt": "a note",
        "users.csv": "a,b\n1,0\n0,1\n0.5,0.5\n",
        "broken.csv": "a,b\n1,x\n,\n1e308,-1e308\n",
        "empty.csv": "",
        "mine.py": MINE,
        "fails.py": "def build_model(n_arms=2):\n    raise SystemExit(5)\n",
        "plan.json": "{}",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "folder").mkdir()
    return tmp_path


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def begins(*_: Any, **__: Any) -> Any:
        raise Begins(BEGINS)

    monkeypatch.setattr(calibration, "plan_walk", begins)
    monkeypatch.setattr(stages.Stages, "_run", begins)
    monkeypatch.setattr(assumptions, "saturated_sets", begins)
    monkeypatch.setattr(audits, "seen_plan", begins)
    monkeypatch.setattr(audits, "policy_views", begins)
    monkeypatch.setattr(simulation, "_run", begins)
    monkeypatch.setattr(reproduction, "run_cell", begins)
    monkeypatch.setattr(reproducing, "reproduce_warfarin", begins)
    monkeypatch.setattr(logs, "make_engine", begins)


def a_number(rng: random.Random) -> str:
    how = rng.random()
    if how < 0.3:
        return rng.choice(NUMBERS)
    if how < 0.8:
        return str(rng.randint(-1, 10 ** rng.randint(1, 25)))
    return repr(rng.choice((-1, 1)) * 10 ** rng.uniform(-320, 308))


def a_name(rng: random.Random) -> str:
    if rng.random() < 0.8:
        return rng.choice(NAMES)
    return "".join(rng.choice(string.printable.replace("/", "")) for _ in range(rng.randint(1, 30)))


def options_of(command: str) -> list[str]:
    """The options of a command that take a value."""
    found = get_command(app.app).commands.get(command)  # pyright: ignore[reportAttributeAccessIssue]
    return sorted({name for part in (found.params if found else ()) for name in part.opts if name.startswith("--")})


def a_value(rng: random.Random, name: str) -> list[str]:
    """A value for an option, likely or not; none for one that takes none."""
    if name in FLAGS:
        return []
    if name == "--set":
        value = rng.choice(VALUES) if rng.random() < 0.6 else a_number(rng)
        return [f"{rng.choice(SETTINGS)}={value}" if rng.random() < 0.95 else value]
    if name in NUMERIC or (name == "--noise" and rng.random() < 0.5):
        return [a_number(rng)]
    if name in WORDS and rng.random() < 0.85:
        return [rng.choice(WORDS[name])]
    return [a_name(rng)]


def an_option(rng: random.Random, known: list[str]) -> list[str]:
    """An option of the command, or now and then of another one."""
    name = rng.choice(known) if known and rng.random() < 0.95 else rng.choice((*NUMERIC, *PATHS, *FLAGS))
    return [name, *a_value(rng, name)]


def a_line(rng: random.Random) -> list[str]:
    words = [rng.choice(COMMANDS) if rng.random() < 0.97 else a_name(rng)]
    if words[0] == "reproduce":
        words.append(rng.choice(("setting-1", "setting-9", "warfarin", a_name(rng))))
    elif rng.random() < 0.95:
        words.append(rng.choice(BELIEFS) if rng.random() < 0.85 else a_name(rng))
    known = options_of(words[0])
    for _ in range(rng.randint(0, 3)):
        words += an_option(rng, known)
    return words


def fault_of(words: list[str], capfd: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """What is wrong with how the command line took this, if anything; and what it said."""
    capfd.readouterr()
    code = app.run(words)
    told = capfd.readouterr().err
    if code not in CODES:
        return f"exit {code}", told
    if "Traceback" in told:
        return "traceback", told
    if code == 2 and not any(line.startswith("rcb: ") for line in told.splitlines()):
        return "refused without a word", told
    return ("a long story" if len(told) > LONG else ""), told


@pytest.mark.usefixtures("folder", "no_work")
@pytest.mark.parametrize("part", range(10))
@pytest.mark.filterwarnings("ignore")
def test_nothing_that_is_typed_is_an_internal_error(part: int, capfd: pytest.CaptureFixture[str]) -> None:
    rng = random.Random(1000 + part)
    begun, faults = 0, []
    for _ in range(N_CASES // 10):
        words = a_line(rng)
        fault, told = fault_of(words, capfd)
        faults += [(fault, [word[:60] for word in words], told[:300])] if fault else []
        begun += BEGINS in told
    assert faults == []
    assert 0 < begun < N_CASES // 10  # neither is all refused, nor nothing


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("part", range(4))
@pytest.mark.filterwarnings("ignore")
def test_odd_values_are_refused_or_computed_with(part: int, capfd: pytest.CaptureFixture[str]) -> None:
    """To the end, at small sizes."""
    rng = random.Random(2000 + part)
    faults = []
    for _ in range(N_RUN // 4):
        words = ["check", rng.choice(("setting_4", "gaussian", "student_t", "mine.py"))]
        words += ["--set", "n_arms=2", "--set", "n_features=2"] if words[1] != "mine.py" else ["--noise", "0.3"]
        words += ["--worlds", "50", "--n-per-arm", "3"]
        for _ in range(rng.randint(1, 3)):
            words += an_option(rng, ["--tau", "--rho", "--noise", "--seed", "--set", "--covariates"])
        fault, told = fault_of(words, capfd)
        faults += [(fault, [word[:60] for word in words], told[:300])] if fault else []
    assert faults == []


LINES = (
    ["check", "setting_4", "--out", "/tmp/" + "a" * 5000],
    ["check", "setting_4", "--n-per-arm", "2147483648"],
    ["audit", "setting_4", "--users", str(2**63)],
    ["simulate", "setting_4", "--worlds", "99999999999"],
    ["check", "setting_4", "--noise", "1e308"],
    ["check", "setting_4", "--set", "n_features=1" + "0" * 30],
)


@pytest.mark.parametrize("words", LINES, ids=lambda words: " ".join(words)[:40])
def test_a_process_of_its_own_refuses_at_once(words: list[str], folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rcb_bayes", *words],
        cwd=folder,
        env={"PYTHONPATH": str(Path(__file__).parents[2]), "OMP_NUM_THREADS": "1", "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
