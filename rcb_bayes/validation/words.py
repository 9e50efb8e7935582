"""A validation in words: a line for each part, and what failed in full."""

from typing import TYPE_CHECKING

from rcb_bayes.telling.wording import brief, figure
from rcb_bayes.validation.result import LEVEL

if TYPE_CHECKING:
    from rcb_bayes.validation.result import Finding, Validation


def summary(found: "Validation") -> str:
    """A line for each part, then the verdict."""
    failed = {id(one) for one in found.failures}
    lines = []
    for part in found.parts:
        own = [one for one in found.findings if one.part == part]
        errors = [error for one in own for error in one.planted]
        caught = sum(found.catches(error) for error in errors)
        bad = sum(id(one) in failed for one in own)
        state = "pass" if not bad and caught == len(errors) else "FAIL"
        held = f"{len(own) - bad} of {len(own)} comparisons hold"
        lines.append(
            f"{part:<12} {state}  {held}, {caught} of {len(errors)} planted errors caught"
            f"  ({found.seconds.get(part, 0.0):.0f} s)"
        )
    lines += [f"  does not hold: {line(one)}" for one in found.failures]
    lines += [f"  not caught: {error.name}, {one.part}, {one.case}, {one.test}" for one, error in found.missed]
    kind = "quick" if found.quick else "whole"
    return "\n".join(
        [
            *lines,
            f"A sound installation passes with a probability of {1 - LEVEL:.3f} or more ({kind} validation, "
            f"seed {found.seed}).",
            f"Verdict: {found.verdict}",
        ]
    )


def table(found: "Validation") -> str:
    """Every comparison in a line."""
    return "\n".join(line(one) for one in found.findings)


def line(one: "Finding") -> str:
    """A comparison in words."""
    allowed = f"p = {brief(one.p_value, 2)}" if one.p_value is not None else f"at most {brief(one.limit or 0.0)}"
    return f"{one.part}, {one.case}, {one.test}: {figure(one.estimate, one.mcse)} ({allowed})"
