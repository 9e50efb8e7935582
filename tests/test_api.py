"""The public names: all there, imported on first use, and nothing heavy before that."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import rcb_bayes

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


@pytest.mark.parametrize("name", rcb_bayes.__all__)
def test_every_public_name_resolves(name: str) -> None:
    assert getattr(rcb_bayes, name) is not None


def test_the_names_of_the_interface_are_public() -> None:
    names = (
        "Ball BernoulliLogit Empirical Gaussian GaussianNoise Market Prior RcbError Sphere Uniform gallery load_prior"
    )
    assert set(names.split()) <= set(rcb_bayes.__all__)


def test_dir_lists_the_public_names() -> None:
    assert set(rcb_bayes.__all__) <= set(dir(rcb_bayes))


def test_public_names_are_listed_once() -> None:
    assert len(set(rcb_bayes.__all__)) == len(rcb_bayes.__all__)


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
    assert declared == {name: f"rcb_bayes.{home}" for name, home in rcb_bayes._HOMES.items()}


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
