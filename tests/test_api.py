"""The public names: all there, imported on first use, and nothing heavy before that."""

import ast
import inspect
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import typer.core
import typer.main

import rcb_bayes
from rcb_bayes.cli.app import app
from rcb_bayes.schema import DEFAULT_HORIZON, DEFAULT_SEED

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "rcb_bayes"
HEAVY = ["arviz", "matplotlib", "nutpie", "pandas", "pymc", "pytensor", "scipy", "sklearn", "xarray"]


def heavy_after(statements: str) -> list[str]:
    """Which of the heavy packages a fresh interpreter has imported after some statements."""
    report = f"import sys; print(*[name for name in {HEAVY} if name in sys.modules], file=sys.__stdout__)"
    done = subprocess.run(
        [sys.executable, "-c", f"{statements}\n{report}"], cwd=ROOT, capture_output=True, check=True, text=True
    )
    return done.stdout.splitlines()[-1].split()


# --- names -----------------------------------------------------------------------------------------------------------


# As the design has it: code outside calls these by name.
DESIGNED = """
    Ball BernoulliLogit Check Empirical Gaussian GaussianNoise Market Plan Prior Recommender Sphere Uniform Audit audit
    calibrate check_assumptions estimate_gaps gallery load_prior posterior_model simulate theorem_plan RcbError
"""
FOR_EXTENDERS = "Covariates Engine Oracle Policy"
ROOMS = ["baselines", "behaviour", "errors", "plots", "posterior", "studies", "users"]


def test_every_public_name_resolves_without_a_warning() -> None:
    for name in [*rcb_bayes.__all__, *ROOMS]:
        assert getattr(rcb_bayes, name) is not None, name


def test_every_room_has_the_names_it_lists() -> None:
    for room in ROOMS:
        module = getattr(rcb_bayes, room)
        assert module.__all__ == sorted(
            set(module.__all__), key=lambda name: (not name.isupper(), name[0].islower(), name)
        )
        for name in module.__all__:
            assert getattr(module, name) is not None, f"{room}.{name}"


def test_the_names_of_the_interface_are_public() -> None:
    assert set(DESIGNED.split()) | set(FOR_EXTENDERS.split()) <= set(rcb_bayes.__all__)
    for name in ("Ball", "Covariates", "Empirical", "Gaussian", "Sphere", "Uniform"):
        assert getattr(rcb_bayes, name) is getattr(rcb_bayes.users, name)


def test_public_names_are_few_and_listed_once() -> None:
    assert 40 <= len(rcb_bayes.__all__) - 1 <= 64  # but for the version
    assert len(set(rcb_bayes.__all__)) == len(rcb_bayes.__all__)
    assert {*rcb_bayes.__all__, *ROOMS} <= set(dir(rcb_bayes))


def test_names_for_type_checkers_are_the_lazy_ones() -> None:
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    declared = {
        alias.asname: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name  # "as" makes it a re-export
    }
    homes = {name: f"rcb_bayes.{home}" for name, home in rcb_bayes._HOMES.items()}
    assert declared == homes | dict.fromkeys(ROOMS, "rcb_bayes")
    assert sorted(rcb_bayes._ROOMS) == ROOMS


def test_no_public_name_is_a_module_of_the_package() -> None:
    # Importing rcb_bayes.audit sets the attribute `audit` to the module, and a function of that name is lost.
    modules = {path.stem for path in PACKAGE.glob("*.py")} | {
        path.parent.name for path in PACKAGE.glob("*/__init__.py")
    }
    assert modules & set(rcb_bayes.__all__) == set()


def test_what_is_not_installed_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError("No module named 'numpy'", name="numpy")

    monkeypatch.setattr(rcb_bayes, "import_module", missing)
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'numpy'. In a checkout `make venv` installs"):
        _ = rcb_bayes.Sphere


def test_a_name_that_does_not_exist_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'rcb_bayes' has no attribute 'Spere'"):
        _ = rcb_bayes.Spere  # pyright: ignore[reportAttributeAccessIssue]
    assert not hasattr(rcb_bayes, "nonsense")


# --- imports ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statements",
    [
        "import rcb_bayes",
        "import rcb_bayes; dir(rcb_bayes); rcb_bayes.Sphere(3); rcb_bayes.GaussianNoise(0.1); rcb_bayes.RcbError",
        "import rcb_bayes; rcb_bayes.users.Sphere(3); rcb_bayes.errors.GuardWarning; hasattr(rcb_bayes, 'LinUcb')",
        "from rcb_bayes import *",
        "from rcb_bayes.cli.app import run; assert run(['--help']) == 0",
        "from rcb_bayes.cli.app import run; assert run(['--version']) == 0",
        "from rcb_bayes.cli.app import run; assert run(['models']) == 0",
        "from rcb_bayes.cli.app import run; assert run(['demo', '--help']) == 0",
        "import rcb_bayes as rcb; rcb.Market(prior=rcb.Prior.gaussian([[0.0], [0.0]], 1.0), covariates=rcb.Sphere(1), "
        "noise=rcb.GaussianNoise(0.1)).describe()",
    ],
)
def test_nothing_heavy_is_imported_before_it_is_needed(statements: str) -> None:
    assert heavy_after(statements) == []


def test_a_heavy_import_is_noticed() -> None:
    assert "xarray" in heavy_after("import rcb_bayes as rcb; rcb.Prior.gaussian([[0.0], [0.0]], 1.0).mean")


# --- defaults --------------------------------------------------------------------------------------------------------


def public_callables() -> Iterator[tuple[str, Any]]:
    """Functions and classes at the top and in the rooms, and the classes' public methods."""
    for place in [rcb_bayes, *(getattr(rcb_bayes, room) for room in ROOMS)]:
        for name in place.__all__:
            thing = getattr(place, name)
            if callable(thing):
                yield name, thing
            if isinstance(thing, type):
                methods = [(key, getattr(thing, key)) for key in vars(thing) if not key.startswith("_")]
                yield from ((f"{name}.{key}", value) for key, value in methods if callable(value))


def defaults_of(argument: str) -> dict[str, Any]:
    found = {}
    for name, thing in public_callables():
        with suppress(ValueError):  # of exceptions
            given = inspect.signature(thing).parameters.get(argument)
            if given is not None and given.default is not inspect.Parameter.empty:
                found[name] = given.default
    return found


def test_one_default_seed() -> None:
    """None is for draws that are to differ (``sample``, ``draw``), and for a plan guarded anew: its own."""
    odd = {name: value for name, value in defaults_of("seed").items() if value != DEFAULT_SEED}
    drawn = {name for name in odd if name.endswith((".sample", ".draw"))}
    assert {name: odd[name] for name in odd if name not in drawn} == {"guard_anew": None}
    assert all(odd[name] is None for name in drawn)
    assert len(defaults_of("seed")) > 40


def test_one_default_horizon() -> None:
    """None of ``Kremer`` is no horizon at all; that of ``calibrate`` is the default where it may be."""
    odd = {name: value for name, value in defaults_of("horizon").items() if value != DEFAULT_HORIZON}
    assert odd == {"Kremer": None, "kremer_thresholds": None, "calibrate": None}


def test_the_command_line_has_the_same_defaults() -> None:
    program = typer.main.get_command(app)
    assert isinstance(program, typer.core.TyperGroup)
    seeds, horizons = {}, {}
    for name, command in program.commands.items():
        for option in command.params:
            if option.name in ("seed", "horizon"):
                (seeds if option.name == "seed" else horizons)[name] = option.default
    assert set(seeds.values()) == {DEFAULT_SEED}
    assert horizons == {
        "calibrate": None,  # the same: it is then not told beside the plan
        **dict.fromkeys(["check", "simulate", "audit", "sensitivity", "report"], DEFAULT_HORIZON),
    }
