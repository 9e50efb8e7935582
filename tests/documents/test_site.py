"""The documentation site: every public name has a page, every link leads somewhere, nothing is fetched."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

import rcb_bayes as rcb

ROOT = Path(__file__).resolve().parents[2]


def tool() -> ModuleType:
    """``tools/site_pages.py``, which is no part of a package."""
    spec = spec_from_file_location("site_pages", ROOT / "tools" / "site_pages.py")
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_has_every_public_name() -> None:
    text = tool().reference()
    listed = set(re.findall(r"^ +rcb_bayes\.(\w+)$", text, re.M))
    assert listed == {name for name in rcb.__all__ if not name.startswith("_")}
    assert "rcb_bayes.baselines.Greedy" in text


def test_sources_are_put_together_without_gaps(tmp_path: Path) -> None:
    tool().assemble(tmp_path / "pages")
    tutorials = (tmp_path / "pages" / "tutorials.md").read_text(encoding="utf-8")
    assert tutorials.count("notebooks/") == len(list((ROOT / "notebooks").glob("[0-9]*.ipynb")))
    assert "measured/*" in (tmp_path / "pages" / "measured.md").read_text(encoding="utf-8")


class Links(HTMLParser):
    """What a page asks a browser to load, and where its links lead."""

    def __init__(self) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.followed: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note sources and references."""
        given = dict(attrs)
        if tag in ("script", "img", "link") and (found := given.get("src") or given.get("href")):
            self.loaded.append(found)
        if tag == "a" and (found := given.get("href")):
            self.followed.append(found)


@pytest.mark.slow
def test_the_site_is_built_and_needs_no_network(tmp_path: Path) -> None:
    pytest.importorskip("sphinx", reason="`make docs` installs Sphinx")
    pytest.importorskip("myst_nb", reason="`make docs` installs it")
    command = [sys.executable, str(ROOT / "tools" / "site_pages.py"), str(tmp_path / "site")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = list((tmp_path / "site").rglob("*.html"))
    assert len(pages) > 100
    for page in pages:
        links = Links()
        links.feed(page.read_text(encoding="utf-8"))
        assert not [one for one in links.loaded if re.match(r"(https?:)?//", one)], page.name
        for one in links.followed:
            target = one.split("#")[0].split("?")[0]
            if target and not re.match(r"\w+:", target):
                assert (page.parent / target).exists(), f"{page.name}: {one}"
    assert (tmp_path / "site" / "searchindex.js").stat().st_size > 10_000
