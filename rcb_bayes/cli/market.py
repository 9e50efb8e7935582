"""A market from the words of a command line: belief, users, rewards."""

import ast
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rcb_bayes.errors import MarketError, RcbError
from rcb_bayes.schema import suggestion

if TYPE_CHECKING:
    from rcb_bayes.market import Market
    from rcb_bayes.market.noise import Noise
    from rcb_bayes.users import Covariates, Empirical

_POPULATIONS = ("sphere", "ball", "gaussian")
_MISSING = ("refuse", "drop", "mean", "indicator")  # as `users.mending` has them, which is not loaded for --help
_USERS, _SIGMA = "sphere", 0.05  # of gallery names
_SIZED = {"features", "n_features", "history"}  # parameters that settle a belief's features

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


def _check_missing(word: str) -> str:
    if word not in _MISSING:
        raise RcbError(f"--missing takes {', '.join(_MISSING)}, got '{word}'.{suggestion(word, _MISSING)}")
    return word


MissingOption = Annotated[
    str,
    typer.Option(
        "--missing",
        callback=_check_missing,
        help="Missing values of a CSV: refuse, drop (leave the users out), mean (fill it in), or indicator (fill it in "
        "and add a 0/1 column).",
    ),
]
StandardiseOption = Annotated[
    bool,
    typer.Option(
        "--standardise", help="Centre the columns of a CSV and divide by their standard deviation, but for 0/1."
    ),
]
DummiesOption = Annotated[
    bool,
    typer.Option(
        "--dummies", help="Make 0/1 columns of a CSV's columns of text: sex_m of sex, where its values are f and m."
    ),
]
InterceptOption = Annotated[
    bool | None,
    typer.Option(
        "--intercept/--no-intercept",
        help="Put a column of ones first.  "
        r"\[default: only where the belief has a feature 'intercept' that a CSV lacks]",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableWords:
    """What the command line says about a table of users."""

    missing: str = "refuse"
    standardise: bool = False
    intercept: bool | None = None
    dummies: bool = False

    @property
    def is_said(self) -> bool:
        """Whether anything is."""
        return self.dummies or self.missing != "refuse" or self.standardise or self.intercept is not None


@dataclass(frozen=True, kw_only=True)
class MarketWords:
    """What the command line says about a market beside its belief: each field is an option."""

    settings: SetOption = None
    covariates: CovariatesOption = None
    missing: MissingOption = "refuse"
    dummies: DummiesOption = False
    standardise: StandardiseOption = False
    intercept: InterceptOption = None
    noise: NoiseOption = None

    def market(self, prior: str) -> "Market":
        """The market that the options describe; see ``build_market``."""
        table = TableWords(**{item.name: getattr(self, item.name) for item in fields(TableWords)})
        return build_market(prior, self.settings, covariates=self.covariates, noise=self.noise, table=table)


def with_words(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameters of several words, such as ``MarketWords``, are options of its own."""
    own = signature(command).parameters
    kinds: dict[str, Any] = {name: one.annotation for name, one in own.items() if is_dataclass(one.annotation)}

    @wraps(command)
    def call(**given: Any) -> None:
        for name, kind in kinds.items():
            given[name] = kind(**{item.name: given.pop(item.name) for item in fields(kind)})
        command(**given)

    parts = [[*signature(kinds[name]).parameters.values()] if name in kinds else [one] for name, one in own.items()]
    options = [one.replace(kind=Parameter.KEYWORD_ONLY) for part in parts for one in part]
    call.__signature__ = Signature(options)  # type: ignore[attr-defined]
    return call


def build_market(
    name: str,
    settings: list[str] | None,
    *,
    covariates: str | None,
    noise: str | None,
    table: TableWords = TableWords(),  # noqa: B008 (frozen)
) -> "Market":
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

    # Words first: what is misspelt is told before PyMC is loaded for the belief.
    if name.lower().endswith(".json"):
        raise RcbError(f"{name} is no belief. If it is a plan, name the belief first and add --plan {name}.")
    params = parse_settings(settings or [])
    rewards = None if noise is None else _as_noise(noise)
    path = find_model(name)
    is_own = not any(entry.path.samefile(path) for entry in gallery().values())
    if is_own and covariates is None:
        raise RcbError(_lacking(path.name, users=True, rewards=noise is None))
    unsaid = covariates is None
    covariates = covariates or _USERS
    users: Empirical | None = None
    is_table = covariates.lower().endswith(".csv")
    if table.is_said and not is_table:
        raise RcbError(
            "--missing, --dummies, --standardise and --intercept are about a table: add --covariates users.csv."
        )
    if is_table:
        taken = parameters_of(path).get("features")
        is_given = taken is None or taken.default is not None or bool(_SIZED & set(params))
        if not is_given:
            users = read_table(covariates, None, table)
            params["features"] = list(users.features)
            _tell(f"features: {', '.join(users.features)} (the columns of {Path(covariates).name})")
    else:
        _check_population(covariates)
    prior = load_prior(name, **params)
    population: Covariates
    if users is not None:
        population = users
    elif is_table:
        population = read_table(covariates, prior.inputs, table)
    else:
        # A curve is nothing on the sphere: with one covariate its users are two points.
        population = _population("ball" if unsaid and prior.feature_map is not None else covariates, len(prior.inputs))
    if rewards is None and not prior.has_sigma:
        if is_own:
            raise RcbError(_lacking(path.name, users=False, rewards=True))
        rewards = GaussianNoise(_SIGMA)
    settled: Any = rewards  # None leaves it to the belief's own sigma
    market = Market(prior=prior, covariates=population, noise=settled)
    if is_table:
        _tell_scales(market)
    return market


def users_of(covariates: str, features: tuple[str, ...]) -> "Covariates":
    """A population by name, or the rows of a CSV whose columns have these names."""
    from rcb_bayes.users import Empirical

    if covariates.lower().endswith(".csv"):
        return Empirical.from_csv(covariates, columns=features)
    _check_population(covariates)
    return _population(covariates, len(features))


def read_table(covariates: str, inputs: tuple[str, ...] | None, table: TableWords) -> "Empirical":
    """The users of a CSV: the columns that a belief names, or all of them where it takes their names.

    Raises
    ------
    RcbError
        Columns that cannot be used, all at once; a belief with one feature more than there are columns.
    """
    from rcb_bayes.files.tables import read_cells
    from rcb_bayes.schema import FEATURE, default_labels
    from rcb_bayes.users import Empirical
    from rcb_bayes.users.mending import INTERCEPT, Mending, read_users

    path = Path(covariates).expanduser()
    header = read_cells(path).header
    wanted: list[str] | None = None
    lacking = [] if inputs is None else [name for name in inputs if name not in header]
    if table.missing == "indicator":
        lacking = [name for name in lacking if name.removesuffix("_missing") not in header]
    # Column by column: what a belief calls sex_m may be made of the column sex.
    made = {name: [column for column in header if name.startswith(f"{column}_")] for name in lacking}
    made = {name: columns[0] for name, columns in made.items() if columns} if table.dummies else {}
    lacking = [name for name in lacking if name not in made]
    name = INTERCEPT if table.intercept else None
    if inputs is not None and table.intercept is None and lacking == [INTERCEPT]:
        name = INTERCEPT  # a feature of that name is the same for everybody
    if inputs is not None and set(lacking) <= {name}:
        taken = {*inputs, *made.values()}
        wanted = [column for column in header if column != name and column in taken]
        left = [column for column in header if column not in taken]
        if left:
            _tell(f"columns left out, no features of the belief: {', '.join(left)}")
    mending = Mending(
        missing=table.missing,
        intercept=name,
        standardise=table.standardise,
        leave_text=wanted is None,
        dummies=table.dummies,
    )
    rows, names, notes = read_users(path, columns=wanted, mending=mending, wanted=inputs or ())
    for note in notes:
        _tell(note)
    if inputs is not None and len(names) + 1 == len(inputs) and name is None:
        unnamed = inputs == default_labels(FEATURE, len(inputs))
        if unnamed or len(lacking) == 1:
            raise MarketError(
                f"The belief has {len(inputs)} features, the covariates have {len(names)}. If the one more is an "
                "intercept, add --intercept: it puts a column of ones first."
            )
    extra = [] if inputs is None or wanted is None else [column for column in names if column not in inputs]
    if extra:
        option = "--missing indicator adds" if extra[0].endswith("_missing") else "--dummies makes"
        raise MarketError(
            f"The belief has no feature '{extra[0]}', which {option}. Give it one, or leave the option out."
        )
    if wanted is not None and inputs is not None and set(names) == set(inputs):
        order = [names.index(column) for column in inputs]  # an intercept may stand anywhere
        rows, names = rows[:, order], list(inputs)
    return Empirical(rows, features=names)


def _tell(note: str) -> None:
    typer.echo(note, err=True)


def _tell_scales(market: "Market") -> None:
    """Say where one column outweighs all others."""
    from rcb_bayes.market.scales import scale_note

    note = scale_note(market)
    if note is not None:
        _tell(note.replace("Standardise the columns", "Add --standardise"))


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
