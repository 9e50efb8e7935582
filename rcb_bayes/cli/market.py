"""A market from the words of a command line: belief, users, rewards."""

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rcb_bayes.errors import RcbError
from rcb_bayes.schema import suggestion

if TYPE_CHECKING:
    from rcb_bayes.market import Market
    from rcb_bayes.market.noise import Noise
    from rcb_bayes.users import Covariates

_POPULATIONS = ("sphere", "ball", "gaussian")
_USERS, _SIGMA = "sphere", 0.05  # of gallery names

PriorArgument = Annotated[
    str, typer.Argument(metavar="PRIOR", help="A belief: a gallery name (`rcb models`) or a file with build_model().")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the belief, such as n_arms=5; may be repeated."),
]
CovariatesOption = Annotated[
    str | None,
    typer.Option(
        "--covariates",
        help="The users: sphere, ball, gaussian, or a CSV file with one row per user; needed for a belief of your own."
        r"  \[default: sphere, for a gallery name]",
    ),
]
NoiseOption = Annotated[
    str | None,
    typer.Option(
        "--noise",
        help="The rewards: a standard deviation, or 'logit' for 0/1 rewards; needed for a belief of your own without a "
        r"sigma.  \[default: 0.05, for a gallery name]",
    ),
]


def build_market(name: str, settings: list[str] | None, *, covariates: str | None, noise: str | None) -> "Market":
    """The market that the options describe.

    A CSV's columns become the features of a belief that names none of its own; otherwise they are found by name.

    Raises
    ------
    RcbError
        A belief of one's own without users or rewards: who they are is no matter of defaults.
    """
    from rcb_bayes.belief.files import find_model, gallery, load_prior, parameters_of
    from rcb_bayes.market import Market
    from rcb_bayes.market.noise import GaussianNoise
    from rcb_bayes.users import Empirical

    # Words first: what is misspelt is told before PyMC is loaded for the belief.
    params = parse_settings(settings or [])
    rewards = None if noise is None else _as_noise(noise)
    path = find_model(name)
    is_own = not any(entry.path.samefile(path) for entry in gallery().values())
    if is_own and covariates is None:
        raise RcbError(_lacking(path.name, users=True, rewards=noise is None))
    unsaid = covariates is None
    covariates = covariates or _USERS
    users: Covariates | None = None
    is_table = covariates.lower().endswith(".csv")
    if is_table:
        users = Empirical.from_csv(covariates)
        taken = parameters_of(path).get("features")
        if taken is not None and taken.default is None and not {"features", "n_features", "history"} & set(params):
            params["features"] = list(users.features)
            typer.echo(f"features: {', '.join(users.features)} (the columns of {Path(covariates).name})", err=True)
    else:
        _check_population(covariates)
    prior = load_prior(name, **params)
    if users is None:
        # A curve is nothing on the sphere: with one covariate its users are two points.
        users = _population("ball" if unsaid and prior.feature_map is not None else covariates, len(prior.inputs))
    elif users.features != prior.inputs and set(prior.inputs) <= set(users.features):
        left_out = [column for column in users.features if column not in prior.inputs]
        if left_out:
            typer.echo(f"columns left out, no features of the belief: {', '.join(left_out)}", err=True)
        users = Empirical.from_csv(covariates, columns=prior.inputs)
    if rewards is None and not prior.has_sigma:
        if is_own:
            raise RcbError(_lacking(path.name, users=False, rewards=True))
        rewards = GaussianNoise(_SIGMA)
    settled: Any = rewards  # None leaves it to the belief's own sigma
    return Market(prior=prior, covariates=users, noise=settled)


def users_of(covariates: str, features: tuple[str, ...]) -> "Covariates":
    """A population by name, or the rows of a CSV whose columns have these names."""
    from rcb_bayes.users import Empirical

    if covariates.lower().endswith(".csv"):
        return Empirical.from_csv(covariates, columns=features)
    _check_population(covariates)
    return _population(covariates, len(features))


def _lacking(name: str, *, users: bool, rewards: bool) -> str:
    """What a belief of one's own needs beside it."""
    who = "who the users are: --covariates users.csv, or sphere, ball or gaussian" if users else ""
    what = "what rewards are like: --noise 0.3 (their standard deviation), or --noise logit for 0/1" if rewards else ""
    return f"{name} is a belief of your own. Say {'; and '.join(part for part in (who, what) if part)}."


def parse_settings(settings: list[str]) -> dict[str, Any]:
    """``["n_arms=3", "family=gamma"]`` as parameters; values are Python literals, anything else is text."""
    params = {}
    for setting in settings:
        name, found, value = setting.partition("=")
        if not found or not name.isidentifier():
            raise RcbError(f"--set takes NAME=VALUE, got '{setting}'. For instance: --set n_arms=3")
        try:
            params[name] = ast.literal_eval(value)
        except (SyntaxError, TypeError, ValueError):
            params[name] = value
    return params


def _check_population(name: str) -> None:
    if name in _POPULATIONS:
        return
    if Path(name).suffix:
        raise RcbError(f"The users must be in a .csv file, got {name}.")
    raise RcbError(
        f"There is no population '{name}'.{suggestion(name, _POPULATIONS)} "
        f"Use one of {', '.join(_POPULATIONS)}, or a .csv file."
    )


def _population(name: str, n_features: int) -> "Covariates":
    import numpy as np

    from rcb_bayes.users import Ball, Gaussian, Sphere

    if name == "sphere":
        return Sphere(n_features)
    return Ball(n_features) if name == "ball" else Gaussian(np.eye(n_features))


def _as_noise(noise: str) -> "Noise":
    from rcb_bayes.market.noise import BernoulliLogit, GaussianNoise

    if noise == "logit":
        return BernoulliLogit()
    try:
        return GaussianNoise(float(noise))
    except ValueError:  # no number, or none that a standard deviation can be
        close = suggestion(noise, ("logit",))
        raise RcbError(f"--noise takes a positive standard deviation or 'logit', got '{noise}'.{close}") from None
