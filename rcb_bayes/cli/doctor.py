"""``rcb doctor``: what is installed here, and does it work?"""

import os
import platform
import sys
import time
from typing import Any

import typer

from rcb_bayes._version import __version__
from rcb_bayes.cli.options import JsonOption, is_stdout, write_json

_PACKAGES = ("pymc", "pytensor", "nutpie", "arviz", "numpy", "scipy", "numba", "xarray", "scikit-learn", "pandas")
_OPTIONAL = {"distributed": "workers on other machines", "bambi": "beliefs from formulas"}
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_PASS, _FAIL = 0, 1


def command(json_file: JsonOption = None) -> None:
    """Tell versions, threads and BLAS, and check for a minute that the parts work: exit 0, or 1 where one does not.

    `rcb validate` asks in full whether the answers are right.
    """
    found: dict[str, Any] = {"rcb-bayes": __version__, "python": platform.python_version()}
    quiet = is_stdout(json_file)
    _tell(f"rcb-bayes {__version__}, Python {found['python']} ({sys.executable})", quiet=quiet)
    found |= {"packages": _versions(), "machine": _machine()}
    for name, value in found["packages"].items():
        _tell(f"  {name:<14} {value}", quiet=quiet)
    for name, value in found["machine"].items():
        _tell(f"{name:<16} {value}", quiet=quiet)
    found["checks"] = []
    for check in _CHECKS:
        row = _run(check)
        found["checks"].append(row)
        state = "ok  " if row["ok"] else "FAIL"
        _tell(f"{state} {row['check']} ({row['seconds']:.1f} s){row['fault'] and ': ' + row['fault']}", quiet=quiet)
    good = all(row["ok"] for row in found["checks"])
    _tell("Verdict: " + ("works" if good else "does not work: see above"), quiet=quiet)
    write_json(found | {"works": good}, json_file)
    raise typer.Exit(_PASS if good else _FAIL)


def _tell(line: str, *, quiet: bool) -> None:
    if not quiet:
        typer.echo(line)


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in (*_PACKAGES, *_OPTIONAL):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = f"not installed ({_OPTIONAL[name]})" if name in _OPTIONAL else "not installed"
    return found


def _machine() -> dict[str, str]:
    import numpy as np
    from threadpoolctl import threadpool_info

    assert np  # its BLAS is what is told
    pools = sorted({f"{pool['internal_api']}, {pool['num_threads']} threads" for pool in threadpool_info()})
    threads = [f"{name}={os.environ[name]}" for name in _THREADS if name in os.environ]
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cores": str(os.cpu_count()),
        "BLAS": "; ".join(pools) or "none found",
        "threads set": ", ".join(threads) or "none: with --workers set OMP_NUM_THREADS=1",
        "memory": _memory(),
    }


def _memory() -> str:
    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB"
    except (AttributeError, OSError, ValueError):  # not on Windows
        return "unknown"


def _run(check: Any) -> dict[str, Any]:
    from rcb_bayes.errors import is_interrupt

    started = time.monotonic()
    fault = ""
    try:
        check()
    except BaseException as error:  # a Rust panic is no Exception
        if is_interrupt(error):
            raise
        fault = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    return {
        "check": (check.__doc__ or "").strip().rstrip("."),
        "ok": not fault,
        "fault": fault,
        "seconds": time.monotonic() - started,
    }


# --- checks ----------------------------------------------------------------------------------------------------------


def _loads() -> None:
    """PyMC, ArviZ and xarray load."""
    import arviz
    import pymc
    import xarray

    assert arviz
    assert pymc
    assert xarray


def _compiles() -> None:
    """A belief of the gallery compiles and is drawn from."""
    from rcb_bayes.belief import load_prior

    drawn = load_prior("student_t", n_arms=2, n_features=2).draw(100, seed=1)["beta"]
    _expect(drawn.shape == (100, 2, 2), f"draws of shape (100, 2, 2), got {drawn.shape}")


def _exact() -> None:
    """An exact posterior is right."""
    import numpy as np

    import rcb_bayes as rcb

    prior = rcb.Prior.gaussian([[0.0], [0.0]], 1.0)
    data = rcb.posterior.Statistics.from_rows(np.ones((4, 1)), arm=[0, 0, 0, 1], reward=[1.0, 1, 1, 2], n_arms=2)
    mean = rcb.posterior.posterior_means(prior, rcb.GaussianNoise(1.0), data).mean[0, :, 0]
    _expect(np.allclose(mean, [0.75, 1.0]), f"means .75 and 1, got {mean}")


def _samples() -> None:
    """NUTS compiles, samples, and meets the exact posterior."""
    import numpy as np

    import rcb_bayes as rcb

    prior = rcb.Prior.gaussian([[0.0], [0.0]], 1.0)
    data = rcb.posterior.Statistics.from_rows(np.ones((4, 1)), arm=[0, 0, 0, 1], reward=[1.0, 1, 1, 2], n_arms=2)
    engine = rcb.posterior.make_engine(prior, rcb.GaussianNoise(1.0), engine="nuts")
    mean = engine.fit(data).mean[0, :, 0]
    _expect(bool(np.abs(mean - [0.75, 1.0]).max() < 0.15), f"means near .75 and 1, got {mean}")


def _plans() -> None:
    """A plan is made, and passes its audit."""
    import rcb_bayes as rcb

    prior = rcb.Prior.gaussian([[0.3], [0.1]], 0.2)
    market = rcb.Market(prior=prior, covariates=rcb.Empirical([[1.0]]), noise=rcb.GaussianNoise(0.3))
    plan = rcb.calibrate(market, n_per_arm=8, n_worlds=500, seed=1)
    found = rcb.audit(market, plan, horizon=30, n_worlds=500, n_users=1, seed=2)
    _expect(found.verdict in ("pass", "inconclusive"), f"an audit that does not fail, got {found.verdict}")


def _writes() -> None:
    """Files are written and read back."""
    import tempfile
    from pathlib import Path

    import rcb_bayes as rcb

    prior = rcb.Prior.gaussian([[0.3], [0.1]], 0.2)
    market = rcb.Market(prior=prior, covariates=rcb.Empirical([[1.0]]), noise=rcb.GaussianNoise(0.3))
    plan = rcb.fixed_plan(market, n_per_arm=4)
    with tempfile.TemporaryDirectory() as folder:
        plan.save(Path(folder) / "plan.json")
        read = rcb.Plan.load(Path(folder) / "plan.json")
    _expect(read.to_dict() == plan.to_dict(), "the plan that was written")


def _expect(holds: bool, what: str) -> None:
    if not holds:
        raise RuntimeError(f"expected {what}")


_CHECKS = (_loads, _compiles, _exact, _samples, _plans, _writes)
