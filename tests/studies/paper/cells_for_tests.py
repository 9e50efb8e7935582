"""Small cells, made up, for judges and figures."""

import numpy as np
import xarray as xr

from rcb_bayes.mechanism.notions import NOTIONS
from rcb_bayes.studies.paper.measures import _FIGURES, edges


def made_up_cell(
    runs: dict[str, dict], *, n_worlds: int = 20, horizon: int = 1000, seed: int = 0, **attrs: float | str
) -> xr.Dataset:
    """A cell with the given final regrets, gains and kinds: {name: {kind, regret, gain, slope, ...}}."""
    rng = np.random.default_rng(seed)
    t = edges(horizon)
    luck = 1.0 + 0.05 * rng.standard_normal(n_worlds)
    parts = []
    for name, given in runs.items():
        final = given.get("regret", 10.0) * luck * (1.0 + 0.01 * rng.standard_normal(n_worlds))
        gain = given.get("gain", 0.3) + 0.02 * rng.standard_normal((n_worlds, len(t)))
        trend = given.get("slope", 0.01) + 0.002 * rng.standard_normal(n_worlds)
        found = {
            "regret": (("run", "world", "t"), (final[:, None] * t / horizon)[None]),
            "gain": (("run", "world", "t"), gain[None]),
            "trend": (("run", "world"), trend[None]),
            "cold_start": (("run", "world"), np.full((1, n_worlds), given.get("cold_start", 100.0))),
            "cold_share": (("run", "world"), np.full((1, n_worlds), 0.1)),
        }
        words = {"kind": given["kind"], "inflation": given.get("inflation", "none"), "note": "", "notion": "user"}
        words |= {f"verdict_{notion}": given.get("verdict", "pass") for notion in NOTIONS}
        numbers = {f"{figure}_{notion}": given.get("margin", 0.1) for figure in _FIGURES for notion in NOTIONS}
        for item in (
            "exploration_rate",
            "share_free",
            "share_explored",
            "guard_keeps",
            "compliance",
            "compliance_mcse",
            "seconds",
        ):
            numbers[item] = 1.0
        numbers |= {"n_per_arm": given.get("n_per_arm", 10.0), "expected_cold_start": given.get("cold_start", 100.0)}
        numbers |= {"expected_cold_start_mcse": 0.0, "spread_multiple": 1.0, "audit_rounds": 100.0}
        found |= {key: (("run",), [value]) for key, value in (words | numbers).items()}
        parts.append(xr.Dataset(found, coords={"run": [name], "t": t, "world": np.arange(n_worlds)}))
    standard = {"n_arms": 5, "n_features": 5, "variance": 0.2, "epsilon": 0.05, "horizon": horizon}
    return xr.concat(parts, dim="run").assign_attrs(standard | attrs)
