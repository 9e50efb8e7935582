"""Numbers in words."""

import math
import re
from pathlib import Path

import numpy as np
import pytest

from rcb_bayes.telling.wording import brief, figure, how_often, percent, times

PACKAGE = Path(__file__).parents[2] / "rcb_bayes"


@pytest.mark.parametrize(
    ("value", "mcse", "text"),
    [
        (0.5284, 0.0112, "0.528 ± 0.011"),
        (192.63, 1.94, "192.6 ± 1.9"),
        (36124.0, 0.0, "36,124"),
        (999.7, 0.0, "1,000"),
        (0.25, math.nan, "0.25"),
        (1e-15, 0.0, "0"),
        (0.0, 0.0005, "0.00000 ± 0.00050"),
        (1e-9, 2e-9, "1e-09 ± 2e-09"),
        (math.inf, 1.0, "no end"),
        (math.nan, 1.0, "unknown"),
    ],
)
def test_a_figure_has_two_digits_of_its_error(value: float, mcse: float, text: str) -> None:
    assert figure(value, mcse) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (-7e-16, "0"),
        (-0.04873, "-0.0487"),
        (2.134, "2.13"),
        (1e-6, "0.000001"),
        (12345.6, "12,346"),
        (100.0, "100"),
        (0.5, "0.5"),
        (math.nan, "unknown"),
    ],
)
def test_figures_have_three_digits_and_no_powers_of_ten(value: float, text: str) -> None:
    assert brief(value) == text


@pytest.mark.parametrize(
    ("share", "mcse", "text"),
    [
        (0.52149, None, "52.1 %"),
        (3.33e-16, None, "0.0 %"),
        (-1e-16, None, "0.0 %"),
        (1 + 1e-15, None, "100.0 %"),
        (0.0002, None, "under 0.1 %"),
        (0.9999, None, "over 99.9 %"),
        (1.0, 0.1, "at least 70.0 %"),
        (1.0, 0.01, "at least 97.0 %"),
        (0.0, 0.006, "at most 1.8 %"),
        (1.0, 0.0, "100.0 %"),
        (0.999, 0.001, "99.9 ± 0.1 %"),
        (0.5621, 0.013, "56.2 ± 1.3 %"),
        (0.5621, 0.0, "56.2 %"),
        (math.nan, 0.1, "unknown"),
    ],
)
def test_shares_are_in_per_cent(share: float, mcse: float | None, text: str) -> None:
    assert percent(share, mcse) == text


def test_no_share_is_written_in_powers_of_ten() -> None:
    rng = np.random.default_rng(1)
    for share, mcse in zip(10.0 ** rng.uniform(-18, 0.1, 2000), 10.0 ** rng.uniform(-18, 0, 2000), strict=True):
        for text in (percent(share), percent(1 - share), percent(share, mcse)):
            assert re.fullmatch(r"(under |over |at most |at least )?\d{1,3}\.\d( ± \d{1,3}\.\d)? %", text), text
            assert 0 <= float(re.findall(r"[\d.]+", text)[0]) <= 100


def test_a_rate_of_one_is_always() -> None:
    assert (how_often(1.0, 0.1), how_often(1.0 - 1e-12), how_often(0.0)) == ("always", "always", "never")
    assert how_often(0.25, 0.01) == "once in 4.00 ± 0.16 rounds"


def test_ratios_may_exceed_one() -> None:
    assert (times(0.0193), times(12.5), times(math.inf)) == ("1.9 %", "1,250 %", "no share")


def test_nobody_writes_shares_in_another_way() -> None:
    """Three digits of a share are 3.33e-14 % as soon as they may be."""
    offenders = [
        f"{path.name}:{number}"
        for path in PACKAGE.rglob("*.py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if re.search(r"100 \*[^{}]*:\.\d?g\} ?%", line)
    ]
    assert offenders == []
