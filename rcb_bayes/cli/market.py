"""A market from the words of a command line: belief, users, rewards."""

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rcb_bayes.errors import RcbError
from rcb_bayes.schema import suggestion

if TYPE_CHECKING:
    from rcb_bayes.covariates import Covariates
    from rcb_bayes.market import Market
    from rcb_bayes.noise import Noise

_POPULATIONS = ("sphere", "ball", "gaussian")
_SIGMA = 0.05

PriorArgument = Annotated[
    str, typer.Argument(metavar="PRIOR", help="A belief: a gallery name (`rcb models`) or a file with build_model().")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the belief, such as n_arms=5; may be repeated."),
]
CovariatesOption = Annotated[
    str, typer.Option("--covariates", help="The users: sphere, ball, gaussian, or a CSV file with one row per user.")
]
NoiseOption = Annotated[
    str | None,
    typer.Option("--noise", help=r"The rewards: a standard deviation, or 'logit' for 0/1 rewards.  \[default: 0.05]"),
]


def build_market(name: str, settings: list[str] | None, *, covariates: str, noise: str | None) -> "Market":
    """The market that the options describe.

    A CSV's columns become the features of a belief that names none of its own; otherwise they are found by name.
    """
    from rcb_bayes.covariates import Empirical
    from rcb_bayes.market import Market
    from rcb_bayes.noise import GaussianNoise
    from rcb_bayes.prior.files import find_model, load_prior, parameters_of

    # Words first: what is misspelt is told before PyMC is loaded for the belief.
    params = parse_settings(settings or [])
    rewards = None if noise is None else _as_noise(noise)
    users: Covariates | None = None
    is_table = covariates.lower().endswith(".csv")
    if is_table:
        users = Empirical.from_csv(covariates)
        taken = parameters_of(find_model(name)).get("features")
        if taken is not None and taken.default is None and not {"features", "n_features", "history"} & set(params):
            params["features"] = list(users.features)
            typer.echo(f"features: {', '.join(users.features)} (the columns of {Path(covariates).name})", err=True)
    else:
        _check_population(covariates)
    prior = load_prior(name, **params)
    if users is None:
        users = _population(covariates, prior.n_features)
    elif users.features != prior.features and set(prior.features) <= set(users.features):
        left_out = [column for column in users.features if column not in prior.features]
        if left_out:
            typer.echo(f"columns left out, no features of the belief: {', '.join(left_out)}", err=True)
        users = Empirical.from_csv(covariates, columns=prior.features)
    if rewards is None and not prior.has_sigma:
        rewards = GaussianNoise(_SIGMA)
    settled: Any = rewards  # None leaves it to the belief's own sigma
    return Market(prior=prior, covariates=users, noise=settled)


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

    from rcb_bayes.covariates import Ball, Gaussian, Sphere

    if name == "sphere":
        return Sphere(n_features)
    return Ball(n_features) if name == "ball" else Gaussian(np.eye(n_features))


def _as_noise(noise: str) -> "Noise":
    from rcb_bayes.noise import BernoulliLogit, GaussianNoise

    if noise == "logit":
        return BernoulliLogit()
    try:
        return GaussianNoise(float(noise))
    except ValueError:  # no number, or none that a standard deviation can be
        close = suggestion(noise, ("logit",))
        raise RcbError(f"--noise takes a positive standard deviation or 'logit', got '{noise}'.{close}") from None
