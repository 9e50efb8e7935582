"""The repository keeps its promises: documents, pins and configuration agree with the tree."""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from rcb_bayes._version import __version__

ROOT = Path(__file__).resolve().parent.parent

MACHINE_PATH = re.compile(r"(?<![\w.~/])/(?:root|home|work|Users)(?=[/\s\"'`,;:)]|$)|file:///\w")
PACKAGE_INDEX = re.compile(r"https?://\S*/simple\b|(?:index-url|find-links)[\s=]|pypi\.org/simple|pythonhosted\.org")


def leaks(text: str) -> list[str]:
    """The lines that name a path of somebody's machine or the address of a package index."""
    return [line for line in text.splitlines() if MACHINE_PATH.search(line) or PACKAGE_INDEX.search(line)]


def repository_files() -> list[Path]:
    """Tracked files, and untracked ones that are not ignored: what a commit could hold."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listing = subprocess.run(
        [git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
        text=True,
    )
    if listing.returncode:
        pytest.skip(f"git cannot list this checkout: {listing.stderr.strip()}")
    paths = (ROOT / name for name in listing.stdout.split("\0") if name)
    # This file holds planted leaks.
    return [path for path in paths if path.is_file() and path != Path(__file__).resolve()]


def read_text(path: Path) -> str:
    """The text of a file, empty for a binary one."""
    content = path.read_bytes()
    return "" if b"\0" in content else content.decode("utf-8", errors="replace")


def code_in(markdown: str) -> str:
    """The fenced blocks and inline code of a Markdown text, one a line."""
    fenced = re.findall(r"^```.*?\n(.*?)^```", markdown, flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"^```.*?^```", "", markdown, flags=re.MULTILINE | re.DOTALL)
    return "\n".join(fenced + re.findall(r"`([^`\n]+)`", prose))


def section(markdown: str, title: str) -> str:
    """The text under a second-level heading."""
    match = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", markdown, flags=re.MULTILINE | re.DOTALL)
    assert match, f"no section '## {title}'"
    return match.group(1)


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", read_text(ROOT / "Makefile"), flags=re.MULTILINE))


def test_files_name_no_machine_path_and_no_package_index() -> None:
    found = {str(path.relative_to(ROOT)): leaks(read_text(path)) for path in repository_files()}
    assert not {name: lines for name, lines in found.items() if lines}


@pytest.mark.parametrize(
    "line",
    [
        "cache = '/home/ada/cache'",
        "cd /work/main",
        "run it in /root",
        "numpy @ file:///opt/numpy.whl",
        "--extra-index-url https://example.org",
        "https://mirror.example.org/pypi/simple",
    ],
)
def test_a_planted_leak_is_found(line: str) -> None:
    assert leaks(f"before\n{line}\nafter") == [line]


@pytest.mark.parametrize("line", ["https://example.org/home", "a/work/b", "~/work", "the roots /workers", "pypi.org"])
def test_a_harmless_line_is_not_a_leak(line: str) -> None:
    assert not leaks(line)


def test_module_map_lists_every_module_and_no_other() -> None:
    package = ROOT / "rcb_bayes"
    paths = {path.relative_to(package).as_posix() for path in package.rglob("*.py")}
    # A package stands in the map under its folder's name: prior/ for prior/__init__.py.
    modules = {path.removesuffix("__init__.py") if "/" in path else path for path in paths}
    table = section(read_text(ROOT / "CONTRIBUTING.md"), "Module map")
    listed = re.findall(r"^\| `([^`]+)` \|", table, flags=re.MULTILINE)
    assert len(listed) == len(set(listed)), "a module is listed twice in CONTRIBUTING.md"
    assert modules - set(listed) == set(), "modules missing from the map in CONTRIBUTING.md"
    assert set(listed) - modules == set(), "modules in the map of CONTRIBUTING.md that do not exist"


def test_the_way_of_a_belief_is_that_of_the_code() -> None:
    table = section(read_text(ROOT / "CONTRIBUTING.md"), "The way of a belief")
    rows = re.findall(r"^\| (\d+) \| `(\w+)`: .+ \| `(\S+\.py)` \|$", table, flags=re.MULTILINE)
    assert [int(step) for step, _, _ in rows] == list(range(1, len(rows) + 1))
    assert (rows[0][1], "report" in [name for _, name, _ in rows]) == ("load_prior", True)
    for _, name, module in rows:
        tree = ast.parse(read_text(ROOT / "rcb_bayes" / module))
        defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        assert name in defined, f"{name} is not in {module}"


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", "notebooks/README.md"])
def test_make_targets_in_documents_exist(document: str) -> None:
    used = set(re.findall(r"\bmake ([a-z][a-z-]*)", code_in(read_text(ROOT / document))))
    assert used - make_targets() == set()


def test_make_targets_are_found_in_code_and_not_in_prose() -> None:
    code = code_in("We make sure.\n```sh\nmake alpha\n```\nThen `make beta` and make do.\n")
    assert re.findall(r"\bmake ([a-z-]+)", code) == ["alpha", "beta"]


def test_newest_version_in_changelog_is_the_package_version() -> None:
    versions = re.findall(r"^## \[(\d[^\]]*)\]", read_text(ROOT / "CHANGELOG.md"), flags=re.MULTILINE)
    assert versions
    assert versions[0] == __version__


def test_every_dependency_has_a_pin_that_satisfies_it() -> None:
    project = tomllib.loads(read_text(ROOT / "pyproject.toml"))["project"]
    lines = read_text(ROOT / "constraints.txt").splitlines()
    pins = {canonicalize_name(name): version for name, _, version in (x.partition("==") for x in lines) if version}
    extras = project["optional-dependencies"].values()
    for requirement in map(Requirement, [*project["dependencies"], *(line for extra in extras for line in extra)]):
        pin = pins.get(canonicalize_name(requirement.name))
        assert pin is not None, f"{requirement.name} has no pin: run make constraints"
        assert pin in requirement.specifier, f"{requirement} does not allow the pinned {pin}: run make constraints"


# h5netcdf is xarray's engine, dask its lazy arrays, lifelines a file that is read, ipykernel papermill's, build and the
# like are commands: used by name, never imported.
NOT_IMPORTED = {
    *(
        "dask",
        "h5netcdf",
        "ipykernel",
        "jupyterlab",
        "lifelines",
        "build",
        "import-linter",
        "pre-commit",
        "pyright",
        "pytest-xdist",
        "ruff",
        "myst-nb",
        "pydata-sphinx-theme",
        "sphinx",
        "sphinx-mathjax-offline",
    ),
}


def imported_by(sources: Iterable[str]) -> set[str]:
    """Distributions whose modules sources import, functions' own imports included; not the standard library's."""
    modules: set[str] = set()
    for node in (node for source in sources for node in ast.walk(ast.parse(source))):
        if isinstance(node, ast.Import):
            modules |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules.add(node.module.partition(".")[0])
    homes = packages_distributions()
    tools = {path.stem for path in (ROOT / "tools").glob("*.py")}  # which import each other
    outside = modules - sys.stdlib_module_names - {"rcb_bayes", "tests"} - tools
    return {canonicalize_name(name) for module in outside for name in homes.get(module, [module])}


def declared() -> dict[str, set[str]]:
    """Requirements, by extra; those of the package itself under "runtime"."""
    project = tomllib.loads(read_text(ROOT / "pyproject.toml"))["project"]
    groups = {"runtime": project["dependencies"], **project["optional-dependencies"]}
    return {name: {canonicalize_name(Requirement(line).name) for line in lines} for name, lines in groups.items()}


def sources_in(*folders: str) -> list[str]:
    return [read_text(path) for folder in folders for path in (ROOT / folder).rglob("*.py")]


def test_declared_dependencies_are_the_ones_imported() -> None:
    wanted = declared()
    package = imported_by(sources_in("rcb_bayes", "models"))
    assert package - wanted["runtime"] - wanted["cluster"] == set(), "imported by the package and not declared"
    assert wanted["runtime"] - package - NOT_IMPORTED == set(), "declared for the package and not imported"
    around = imported_by(sources_in("tests", "tools"))
    assert around - wanted["runtime"] - wanted["dev"] == set(), "imported by tests or tools and not declared"
    extras = set().union(*(names for extra, names in wanted.items() if extra != "runtime"))
    assert extras - around - package - NOT_IMPORTED == set(), "declared as an extra and not imported"


def test_an_import_that_is_not_declared_is_noticed() -> None:
    planted = (
        "def late():\n    from sklearn.linear_model import Ridge\n    import nothing_like_it.part\n    import json\n"
    )
    assert imported_by([planted]) == {"scikit-learn", "nothing-like-it"}


def test_the_citation_names_this_version() -> None:
    assert f"\nversion: {__version__}\n" in read_text(ROOT / "CITATION.cff")
