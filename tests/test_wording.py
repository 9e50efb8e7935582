"""Numbers in words."""

import math

import pytest

from rcb_bayes.wording import brief, figure, percent


@pytest.mark.parametrize(
    ("value", "mcse", "text"),
    [
        (0.5284, 0.0112, "0.528 ± 0.011"),
        (192.63, 1.94, "192.6 ± 1.9"),
        (36124.0, 0.0, "36,124"),
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


@pytest.mark.parametrize(("value", "text"), [(-7e-16, "0"), (-0.04873, "-0.0487"), (2.134, "2.13"), (1e-6, "1e-06")])
def test_rounding_errors_are_not_shown(value: float, text: str) -> None:
    assert brief(value) == text


def test_shares_are_in_per_cent() -> None:
    assert percent(0.52149) == "52.1 %"
