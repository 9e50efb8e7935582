"""The README's picture of policies is drawn from the stored table, with a point and a label for every row."""

import importlib
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def picture(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("comparison_picture")


def test_every_policy_stands_in_its_panel(picture: ModuleType) -> None:
    table = pd.read_csv(picture.TABLE)
    panels = picture.draw(table).axes
    assert len(panels) == len(picture.TITLES) == table["market"].nunique()
    for axes, market in zip(panels, picture.TITLES, strict=True):
        own = table[table["market"] == market]
        labels = [text.get_text().split("\n")[0] for text in axes.texts]
        assert labels == [picture.NAMES[run] for run in own["run"]]
        assert len(axes.containers) == len(own)  # points with their errors


def test_a_policy_that_loses_users_lies_above_epsilon(picture: ModuleType) -> None:
    table = pd.read_csv(picture.TABLE)
    panel = picture.draw(table.assign(margin_user=-0.3)).axes[0]
    heights = [container.lines[0].get_ydata()[0] for container in panel.containers]
    paid = (table[table["market"] == "setting-4"]["run"] == "payments").tolist()
    assert heights == [0.05 if one else 0.3 for one in paid]  # who is paid loses epsilon at most
