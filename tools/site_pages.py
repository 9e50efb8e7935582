"""Build the documentation site: ``python tools/site_pages.py FOLDER``. Nothing is fetched, nothing is executed.

Sources are put together first: ``docs``, the notebooks with the outputs they carry, and a page for every
public name of the reference. A warning of Sphinx, such as a link that leads nowhere, ends the build.
"""

import argparse
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

GROUPS = {
    "Beliefs": ("belief",),
    "Users and rewards": ("users", "market"),
    "Gaps and assumptions": ("gaps",),
    "Plans": ("planning", "auditing.calibration", "mechanism"),
    "Runs": ("running", "behaviour"),
    "Audits": ("auditing",),
    "Posteriors": ("posterior",),
    "Reports": ("reporting",),
}
"""Headings of the reference, and the homes of the names below each; the longest home that fits a name decides."""


def assemble(folder: Path) -> None:
    """Put the sources of the site into a folder, which is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder, ignore=shutil.ignore_patterns("_build"))
    notebooks = sorted((ROOT / "notebooks").glob("[0-9]*.ipynb"))
    (folder / "notebooks").mkdir()
    for path in notebooks:
        # In a checkout notebooks are beside the documents, on the site below them.
        text = path.read_text(encoding="utf-8").replace("](../docs/", "](../")
        (folder / "notebooks" / path.name).write_text(text, encoding="utf-8")
    _fill(folder / "tutorials.md", "NOTEBOOKS", _tree(f"notebooks/{path.stem}" for path in notebooks))
    (folder / "reference.md").write_text(reference(), encoding="utf-8")
    with (folder / "measured.md").open("a", encoding="utf-8") as page:
        print("", "## Files", "", _tree(["measured/*"], glob=True), sep="\n", file=page)


def _tree(names: Iterable[str], *, glob: bool = False) -> str:
    return "\n".join(["```{toctree}", ":maxdepth: 1", *([":glob:"] if glob else []), "", *names, "```"])


def _fill(path: Path, mark: str, text: str) -> None:
    path.write_text(path.read_text(encoding="utf-8").replace(mark, text), encoding="utf-8")


def reference() -> str:
    """A page of the reference: public names by heading, each with a page of its own."""
    import rcb_bayes as rcb

    homes = dict(rcb._HOMES)
    lines = ["# Reference", "", "Everything below is a name of `rcb_bayes`, imported as `rcb`.", ""]
    heads = {head: [] for head in GROUPS}
    others = []
    for name in sorted(homes, key=str.lower):
        fits = [(len(home), head) for head, some in GROUPS.items() for home in some if _lies_in(homes[name], home)]
        (heads[max(fits)[1]] if fits else others).append(f"rcb_bayes.{name}")
    for head, names in [*heads.items(), ("Others", others), *_rooms()]:
        if names:
            lines += [f"## {head}", "", *_summary(names), ""]
    return "\n".join(lines)


def _rooms() -> Iterator[tuple[str, list[str]]]:
    """Submodules that hold public names of their own, less those that are named above."""
    from importlib import import_module

    import rcb_bayes as rcb

    for room in ("users", "baselines", "behaviour", "plots", "posterior", "studies", "errors"):
        try:
            module = import_module(f"rcb_bayes.{room}")
        except ModuleNotFoundError:
            continue
        names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
        new = [name for name in names if name not in rcb.__all__ and callable(getattr(module, name))]
        yield f"rcb.{room}", [f"rcb_bayes.{room}.{name}" for name in new]


def _lies_in(home: str, room: str) -> bool:
    return home == room or home.startswith(f"{room}.")


def _summary(names: list[str]) -> list[str]:
    body = [f"   {name}" for name in names]
    return ["```{eval-rst}", ".. autosummary::", "   :toctree: reference", "   :nosignatures:", "", *body, "```"]


def build(out: Path, *, source: Path) -> int:
    """Build the pages; the exit code of Sphinx."""
    sphinx = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    folders = ["-d", str(source.parent / "doctrees"), str(source), str(out)]
    return subprocess.run([*sphinx, *folders], check=False).returncode


def main() -> int:
    """Put the sources together and build."""
    parser = argparse.ArgumentParser(description="Build the documentation site.")
    parser.add_argument("out", type=Path, help="folder of the pages")
    options = parser.parse_args()
    source = options.out.parent / f"{options.out.name}_source" / "pages"
    assemble(source)
    code = build(options.out, source=source)
    if code == 0:
        print(f"Site: {options.out / 'index.html'}")
    return code


if __name__ == "__main__":
    sys.exit(main())
