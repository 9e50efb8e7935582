"""What can be reproduced, by name: functions from a request to an outcome, imported on first use."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any

from rcb_bayes.schema import no_such
from rcb_bayes.studies.paper.outcome import Outcome, Request

ALL = "all"
ELSEWHERE = ("warfarin", "actg")  # the command line's own


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """An experiment: what it is about, and the function of a module that runs it, (*arguments, request) -> Outcome."""

    summary: str
    module: str
    function: str
    arguments: tuple[Any, ...] = ()

    def run(self, request: Request) -> Outcome:
        """Import and run it."""
        return partial(getattr(import_module(self.module), self.function), *self.arguments)(request)


def _setting(name: str, summary: str) -> Experiment:
    home = "rcb_bayes.studies.paper.reproduction"
    return Experiment(summary=summary, module=home, function="run_setting", arguments=(name,))


_SETTINGS = {
    "setting-1": "numbers of arms and features",
    "setting-2": "ad hoc numbers of samples",
    "setting-3": "epsilon and prior variance",
    "setting-4": "a favourite arm, and prior variances that grow",
}
_ORTHANT = {f"{name}-orthant": f"{summary}; users without negative features" for name, summary in _SETTINGS.items()}


EXPERIMENTS: dict[str, Experiment] = {
    **{name: _setting(name, summary) for name, summary in (_SETTINGS | _ORTHANT).items()},
    "variants": Experiment(
        summary="Settings 1 and 4 with other beliefs, and with beliefs that are off",
        module="rcb_bayes.studies.paper.variants",
        function="run_variants",
    ),
    "comparison": Experiment(
        summary="all policies side by side",
        module="rcb_bayes.studies.paper.side_by_side",
        function="run_comparison",
    ),
}


def reproduce(name: str, request: Request | None = None) -> list[Outcome]:
    """Run an experiment of the paper, or all of them, each in a folder of its name.

    Parameters
    ----------
    name : str
        An experiment, such as "setting-1"; "all" for all of them.
    request : Request, optional
        How much work, and where results go.

    Returns
    -------
    list of Outcome
        One for each experiment.

    Raises
    ------
    RcbError
        An unknown name; a folder that holds another run.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> outcome = rcb.studies.reproduce("setting-1", rcb.studies.Request(fast=True, n_worlds=2, seed=1))[0]
    >>> outcome.title
    'Setting 1: numbers of arms and features'
    >>> outcome.table["kind"].unique().tolist()
    ['theorem', 'measured', 'fixed', 'uniform', 'personalised']
    """
    request = request or Request()
    names = find_experiments(name)
    if len(names) == 1:
        return [EXPERIMENTS[names[0]].run(request)]
    return [EXPERIMENTS[one].run(_in_own_folder(request, one)) for one in names]


def find_experiments(name: str) -> Sequence[str]:
    """The experiments that a name stands for."""
    if name == ALL:
        return tuple(EXPERIMENTS)
    if name not in EXPERIMENTS:
        known = (*EXPERIMENTS, ALL, *ELSEWHERE)
        raise no_such("setting", name, known, told="Known are")
    return (name,)


def _in_own_folder(request: Request, name: str) -> Request:
    if request.folder is None:
        return request
    folder = request.folder / name
    # A run of all settings that was stopped has folders for some of them only.
    return replace(request, folder=folder, resume=request.resume and folder.exists())
