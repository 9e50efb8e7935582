"""Markets in which package and plain mechanism are compared: bench_truth.py at length, test_truth.py in small."""

from typing import Any

import numpy as np

from tests.twins.truth import Case

TYPES = [[1.0, 0.0], [0.0, 1.0]]


def two_favourites() -> Case:
    """Two types of users, each with a favourite arm of her own: arms fill side by side."""
    return Case(name="two favourites", mean=((0.3, 0.0), (0.0, 0.3)), variance=0.02, sigma=0.3, rows=TYPES)


def setting_4(n_arms: int, *, variance: float = 0.02) -> Case:
    """The paper's Setting 4: five features, users on the sphere, the first arm favoured."""
    mean = np.zeros((n_arms, 5))
    mean[0] = 1.0
    return Case(name=f"setting 4, {n_arms} arms", mean=mean, variance=variance, sigma=0.05)


def coupled() -> Case:
    """Three arms whose coefficients hang together (correlation .6), users on the sphere."""
    across = 0.6 + 0.4 * np.eye(3)
    mean = np.outer([0.5, 0.2, 0.0], np.ones(2))
    return Case(name="coupled", mean=mean, variance=np.kron(across, 0.1 * np.eye(2)), sigma=0.3)


def rare_type(share: float = 0.05, *, by: str = "arm") -> Case:
    """A common type who loses 1 by the second arm, a rare one who may gain.

    Variances 1e-4 and .25: of the two arms, or of the two types' coefficients (``by="type"``).
    """
    variance = (1e-4, 0.25) if by == "arm" else np.stack([np.diag([1e-4, 0.25])] * 2)
    return Case(
        name=f"rare type {share:g}, by {by}",
        mean=((1.0, 0.0), (0.0, 0.0)),
        variance=variance,
        sigma=0.5,
        rows=TYPES,
        shares=[1.0 - share, share],
    )


def in_order(how: str, n_rows: int = 1000) -> Case:
    """One and the same table of users, sorted up, down, or shuffled."""
    rng = np.random.default_rng(0)
    u = rng.uniform(-1.0, 1.0, n_rows)
    order = {"up": np.argsort(u), "down": np.argsort(-u), "shuffled": rng.permutation(n_rows)}[how]
    rows = np.stack([np.ones(n_rows), u], axis=1)[order]
    return Case(name=f"rows {how}", mean=((0.5, 0.5), (0.3, -0.3)), variance=(0.05, 0.3), sigma=0.5, rows=rows)


_FOUR_TYPES = [[1.0, 0.0, 0.2], [0.3, 0.8, 0.0], [0.0, 0.5, 0.9], [0.6, 0.6, 0.6]]


def grid() -> dict[str, Case]:
    """What other comparisons hold fixed, changed: arms, shares, signs, platforms, populations."""
    different: dict[str, Any] = dict(
        mean=((0.4, 0.1, 0.0), (0.1, 0.3, 0.1), (0.0, 0.1, 0.3)),
        variance=(0.02, 0.1, 0.3),
        sigma=0.4,
        rows=_FOUR_TYPES,
    )
    four: dict[str, Any] = dict(
        mean=((0.4, 0.1, 0.0), (0.1, 0.3, 0.1), (0.0, 0.1, 0.3), (0.2, 0.2, 0.2)),
        variance=(0.02, 0.1, 0.3, 0.05),
        sigma=0.4,
        rows=_FOUR_TYPES,
    )
    signed = [[1.0, -0.5, 0.2], [-0.3, 0.8, 0.0], [0.0, -0.5, -0.9], [0.6, 0.6, 0.6], [-1.0, 0.0, 0.3]]
    believes: dict[str, Any] = dict(
        platform_mean=((0.3, 0.2, 0.0), (0.2, 0.2, 0.2), (0.1, 0.0, 0.2)), platform_variance=(0.1, 0.1, 0.1)
    )
    narrow: dict[str, Any] = dict(platform_mean=different["mean"], platform_variance=(0.005, 0.4, 0.02))
    even = [0.25] * 4
    rare = [0.6, 0.3, 0.09, 0.01]
    repeated: dict[str, Any] = {**different, "rows": [*_FOUR_TYPES, *_FOUR_TYPES[:2]]}
    joint = np.kron(0.5 + 0.5 * np.eye(3), np.diag([0.05, 0.1, 0.2]))
    cases = [
        Case(name="3 arms, even", shares=even, **different),
        Case(name="3 arms, rare", shares=rare, **different),
        Case(name="3 arms, rare last", shares=rare[::-1], **different),
        Case(name="3 arms, repeated rows", shares=[0.3, 0.2, 0.09, 0.01, 0.3, 0.1], **repeated),
        Case(name="3 arms, signed", shares=[0.4, 0.3, 0.2, 0.08, 0.02], **{**different, "rows": signed}),
        Case(name="3 arms, platform otherwise", shares=rare, **different, **believes),
        Case(name="3 arms, platform's variances otherwise", shares=even, **different, **narrow),
        Case(name="3 arms, coupled", shares=rare, **{**different, "variance": joint}),
        Case(name="3 arms, ties", shares=rare, **{**different, "mean": np.zeros((3, 3))}),
        Case(name="4 arms, even", shares=even, **four),
        Case(name="4 arms, rare", shares=rare, **four),
        Case(name="2 arms, sphere", mean=((0.4, 0.2), (0.1, 0.1)), variance=(0.05, 0.2), sigma=0.4, sphere_size=512),
    ]
    return {case.name: case for case in cases}
