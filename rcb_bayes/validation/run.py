"""``validate``: every part of a validation, one after the other."""

import platform
import time
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version

import numpy as np

from rcb_bayes._version import __version__
from rcb_bayes.schema import DEFAULT_SEED, as_count
from rcb_bayes.telling.progress import progress
from rcb_bayes.validation.result import Finding, Validation

_PACKAGES = ("pymc", "pytensor", "nutpie", "arviz", "numpy", "scipy", "numba", "xarray", "scikit-learn")
Task = tuple[str, Callable[[np.random.SeedSequence], list[Finding]]]


def validate(*, quick: bool = False, engines: Sequence[str] | None = None, seed: int = DEFAULT_SEED) -> Validation:
    """Validate this installation: engines calibrated by simulation, twins met, planted errors caught.

    Parameters
    ----------
    quick : bool
        Fewer beliefs an engine: about two minutes of one core instead of ten.
    engines : sequence of str, optional
        The engines to validate, and nothing else; every engine, gaps, rates and audits unless given. An engine of one's
        own is entered in ``posterior.ENGINES`` and named here.
    seed : int
        The same seed gives the same answer.

    Returns
    -------
    Validation
        With ``verdict``, ``summary()``, ``save(path)``.

    Raises
    ------
    RcbError
        There is no such engine.

    Applicability
    -------------
    A sound installation passes with a probability of .999 or more, whatever the seed. A bias of .1 posterior sd is
    caught in every engine, and sds a tenth too small: both are planted in each run, and one that goes unnoticed fails
    it. What is validated are the engines on beliefs of the gallery, not a belief of one's own.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> found = rcb.validate(engines=["exact"], quick=True, seed=1)
    >>> found.verdict, len(found.findings)
    ('pass', 23)
    """
    from rcb_bayes.validation.cases import engine_names

    tasks = tasks_of(engine_names(engines), quick=bool(quick), mechanism=engines is None)
    roots = np.random.SeedSequence(as_count(seed, name="seed", least=0)).spawn(len(tasks))
    findings: list[Finding] = []
    seconds: dict[str, float] = {}
    with progress(len(tasks), description="Validating") as advance:
        for (part, task), root in zip(tasks, roots, strict=True):
            started = time.process_time()
            findings += task(root)
            seconds[part] = seconds.get(part, 0.0) + time.process_time() - started
            advance(1)
    return Validation(findings=tuple(findings), quick=bool(quick), seed=int(seed), seconds=seconds, versions=versions())


def tasks_of(engines: tuple[str, ...], *, quick: bool, mechanism: bool) -> list[Task]:
    """What is to be done, in order, each by a name."""
    from rcb_bayes.validation.calibrating import calibrate_case
    from rcb_bayes.validation.cases import cases_of
    from rcb_bayes.validation.mechanism_twins import MECHANISM, mechanism_findings
    from rcb_bayes.validation.twins import twin_findings

    tasks: list[Task] = []
    for engine in engines:
        tasks += [(engine, partial(calibrate_case, case)) for case in cases_of((engine,), quick=quick)]
        tasks.append((engine, partial(twin_findings, engine)))
    if mechanism:
        tasks += [(part, partial(mechanism_findings, part, quick=quick)) for part in MECHANISM]
    return tasks


def versions() -> dict[str, str]:
    """Of what is validated."""
    found = {"rcb-bayes": __version__, "python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found | {"machine": f"{platform.system()} {platform.machine()}"}
