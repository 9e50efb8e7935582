"""A market: who believes what, who the users are, and how rewards come about.

Three beliefs may differ. Users act on ``prior``; the platform estimates with ``platform_prior``; the world draws its
coefficients from ``nature``. Margins are always the users' arithmetic, so they are computed under ``prior``; the other
two change what the platform recommends and what regret it pays.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes.belief import Prior
from rcb_bayes.calling import checked
from rcb_bayes.errors import BeliefWarning, DataError, MarketError
from rcb_bayes.feature_maps import FeatureMap, of_transformer
from rcb_bayes.market.fingerprint import PARTS, of_belief, of_noise, of_samples, of_users
from rcb_bayes.market.noise import GaussianNoise, Noise
from rcb_bayes.market.samples import Samples, read_samples
from rcb_bayes.schema import ARM, FEATURE, LOG_COLUMNS, FloatArray, default_labels
from rcb_bayes.telling.html import as_html
from rcb_bayes.users import Covariates, Empirical
from rcb_bayes.users.mapped import mapped

_FIT_USERS = 8192
_PROBED_USERS = 512

Response = Callable[[FloatArray], FloatArray]
"""What users expect before any data, (U, K) -> the chance that each takes arm a as arm i is recommended, (U, K, K)."""


@checked
@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Market:
    """Beliefs, users and rewards.

    Parameters
    ----------
    prior : Prior
        The users' common belief about beta (arm, feature).
    covariates : Covariates
        The users, x ~ P_X.
    noise : Noise
        The reward model; may be left out when the belief carries its own ``sigma``.
    platform_prior : Prior
        What the platform estimates with; the users' belief unless given.
    nature : Prior
        Where the true coefficients come from; the users' belief unless given.
    feature_map : FeatureMap
        From users' x to the features that beliefs speak of; the belief's own unless given, None where features are x.
    features : scikit-learn transformer
        Makes that map, in its place: polynomials, splines, one-hot codes, a pipeline. One that is not fitted is
        fitted, a copy of it, to covariates alone. (Read, ``features`` are the labels of x.)
    response : callable, optional
        How often users take which arm, where not all of them follow; ``calibrate`` and ``audit`` set it from a
        ``behaviour``.
    past : Samples, optional
        What the platform has sampled before, and keeps to itself; see ``with_history``.

    Raises
    ------
    MarketError
        When numbers or labels of arms or features disagree, it is not clear what the noise is, or a transformer needs
        rewards.
    DataError
        When a map gives values that are not finite, or fails.

    Examples
    --------
    >>> import rcb_bayes as rcb
    >>> prior = rcb.Prior.gaussian([[0.5, 0.2], [0.2, 0.2]], 0.25, arms=["old", "new"])
    >>> market = rcb.Market(prior=prior, covariates=rcb.Sphere(2), noise=rcb.GaussianNoise(0.3))
    >>> print(market.describe())
    users believe   gaussian: 2 arms, 2 features, Gaussian, independent arms
    users           uniform on the unit sphere, 2 features, phi0 = 0.5
    rewards         Gaussian rewards, sigma = 0.3

    A belief about an intercept, age and its square, and users who are told by their age:

    >>> from sklearn.preprocessing import PolynomialFeatures
    >>> prior = rcb.Prior.gaussian([[0.5, 0.2, 0.0], [0.2, 0.2, 0.0]], 0.25, arms=["old", "new"])
    >>> ages = rcb.Empirical([[0.1], [0.4], [0.9]], features=["age"])
    >>> curved = rcb.Market(
    ...     prior=prior, covariates=ages, noise=rcb.GaussianNoise(0.3), features=PolynomialFeatures(2)
    ... )
    >>> curved.features, curved.feature_map.features, curved.features_of(np.array([[0.5]]))
    (('age',), ('1', 'age', 'age^2'), array([[1.  , 0.5 , 0.25]]))
    """

    prior: Prior
    covariates: Covariates
    # None stands for "not given" in the call only: __post_init__ settles all three.
    noise: Noise = None  # pyright: ignore[reportAssignmentType]
    platform_prior: Prior = None  # pyright: ignore[reportAssignmentType]
    nature: Prior = None  # pyright: ignore[reportAssignmentType]
    feature_map: FeatureMap | None = None
    past: Samples | None = None
    if TYPE_CHECKING:
        features: Any = None
    else:
        features: InitVar[Any] = None  # passed: the transformer; read: labels (below)
    response: Response | None = field(default=None, repr=False, compare=False)
    population: Covariates = field(init=False, repr=False)

    def __post_init__(self, features: Any = None) -> None:  # noqa: RUF033 (type checkers see no InitVar)
        # A call without the argument passes the property of the same name, dataclasses.replace the labels read from it.
        given = None if isinstance(features, property | tuple) else features
        object.__setattr__(self, "feature_map", _settle_map(self, given))
        _check_expansion(self.prior, self.covariates)
        object.__setattr__(self, "population", mapped(self.covariates, self.feature_map))
        _check_features(self.prior, self.population)
        clash = {*LOG_COLUMNS, *(f"p_{arm}" for arm in self.arms)} & set(self.features)
        if clash:
            raise MarketError(f"A feature cannot be called '{min(clash)}': logs have such a column. Rename it.")
        object.__setattr__(self, "noise", _settle_noise(self.prior, self.noise))
        for role in ("platform_prior", "nature"):
            other = getattr(self, role)
            if other is None:
                object.__setattr__(self, role, self.prior)
            else:
                _check_role(self.prior, other, role=role)
                _check_same_map(self.prior, other, users=self.covariates, role=role)

    @property
    def arms(self) -> tuple[str, ...]:
        """Arm labels."""
        return self.prior.arms

    if not TYPE_CHECKING:

        @property
        def features(self) -> tuple[str, ...]:
            """Labels of users' x: the belief's, or those that its feature map asks for."""
            return self.prior.features if self.feature_map is None else self.feature_map.inputs

    def features_of(self, x: FloatArray) -> FloatArray:
        """What beliefs speak of: phi(x) of users, (..., p) -> (..., d); x itself where there is no map."""
        return x if self.feature_map is None else self.feature_map(x)

    @property
    def n_arms(self) -> int:
        """K, the number of arms."""
        return self.prior.n_arms

    @property
    def n_features(self) -> int:
        """d, the number of features."""
        return self.prior.n_features

    def with_history(self, data: Any, *, public: bool | None = None) -> "Market":
        """The market with a table of the past: users, arms and rewards from before the first round.

        A public history is known to everybody and becomes the belief (``Prior.given``), of users, platform and nature.
        A private one is the platform's: its samples count towards N from the start, and users, who know that it is
        there, know no reward of it. Plans are made without these rewards, from who was sampled with which arm.

        Parameters
        ----------
        data : pandas.DataFrame, mapping, str or path-like
            A table, or a comma-separated file: a column for each of users' covariates, ``arm`` (labels or positions)
            and ``reward``.
        public : bool
            Whether users know it. There is no default: one or the other, never both.

        Returns
        -------
        Market

        Raises
        ------
        MarketError
            Neither public nor private; a second private history.
        DataError
            Missing columns, unknown arms or features, values that are not finite, 0/1 rewards that are neither.

        Applicability
        -------------
        Samples whose users and arms were not chosen by what their rewards turned out to be: all of an old system's
        rounds, not those that somebody kept.

        Examples
        --------
        With ``market`` as in ``calibrate``:

        >>> past = {"x": [[1.0, 0.0], [0.0, 1.0]], "arm": ["old", "old"], "reward": [0.4, 0.1]}
        >>> market.with_history(past, public=False).past.counts(2)
        (2, 0)
        >>> market.with_history(past, public=True).prior.mean.sel(arm="old").values.round(2)
        array([0.43, 0.13])
        """
        if public is None or not isinstance(public, bool):
            raise MarketError(
                "Is this history public or private? With public=True everybody knows it and it becomes the belief; "
                "with public=False it is the platform's own and counts towards N. It cannot be both."
            )
        samples = read_samples(self.prior, data)
        if not self.noise.is_gaussian and not np.isin(samples.reward, (0.0, 1.0)).all():
            raise DataError("Bernoulli rewards are 0 or 1. Check the rewards of the history.")
        if not public:
            if self.past is not None:
                raise MarketError("This market has a private history already. Put both into one table.")
            return replace(self, past=samples)
        known = {id(self.prior): self.prior.given(samples, noise=self.noise)}
        roles = {name: getattr(self, name) for name in ("prior", "platform_prior", "nature")}
        for belief in roles.values():
            if id(belief) not in known:
                known[id(belief)] = belief.given(samples, noise=self.noise)
        return replace(self, **{name: known[id(belief)] for name, belief in roles.items()})

    def with_arm(self, label: str, belief: Any) -> "Market":
        """The market with one more arm, the last, in everybody's belief.

        Parameters
        ----------
        label : str
            The new arm.
        belief : tuple of array_like, or Prior
            ``(mean, cov)`` of its coefficients, or a belief about all arms, the new one last: see ``Prior.with_arm``.

        Returns
        -------
        Market

        Raises
        ------
        BeliefError
            See ``Prior.with_arm``.
        MarketError
            A belief about all arms, where users, platform and nature have beliefs of their own.

        Examples
        --------
        With ``market`` as in ``calibrate``:

        >>> market.with_arm("newest", ([0.1, 0.3], 0.5)).arms
        ('old', 'new', 'newest')
        """
        if self.is_misspecified and isinstance(belief, Prior):
            raise MarketError(
                f"One belief about all arms and '{label}' is not enough: users, platform and nature have beliefs of "
                "their own here. Give (mean, cov), or build the market with three beliefs."
            )
        return self._each(lambda prior: prior.with_arm(label, belief), past=self.past)

    def among(self, arms: Sequence[str]) -> "Market":
        """The market with some of its arms alone, of beliefs in closed form.

        Samples of other arms in a private history are left out. With independent arms they say nothing about these.

        Parameters
        ----------
        arms : sequence of str
            Two arms or more, in the order wanted.

        Returns
        -------
        Market

        Raises
        ------
        BeliefError
            Arms that are not there; a belief without a closed form.

        Examples
        --------
        With ``market`` as in ``calibrate``:

        >>> market.with_arm("newest", ([0.1, 0.3], 0.5)).among(["new", "newest"]).arms
        ('new', 'newest')
        """
        if tuple(arms) == self.arms:
            return self
        past = (
            None if self.past is None else self.past.among([self.arms.index(arm) for arm in arms if arm in self.arms])
        )
        return self._each(lambda prior: prior.among(arms), past=past)

    def _each(self, change: Callable[[Prior], Prior], *, past: Samples | None) -> "Market":
        """The market with every belief changed alike; one that several have is changed once."""
        roles = {name: getattr(self, name) for name in ("prior", "platform_prior", "nature")}
        known = {id(belief): change(belief) for belief in {id(one): one for one in roles.values()}.values()}
        return replace(self, past=past, **{name: known[id(belief)] for name, belief in roles.items()})

    @property
    def is_misspecified(self) -> bool:
        """Whether the platform or nature differ from what users believe."""
        return self.platform_prior is not self.prior or self.nature is not self.prior

    def fingerprint(self, *, parts: Sequence[str] = PARTS) -> dict[str, str]:
        """What tells the market from others, by part: ``belief``, ``platform``, ``users`` and ``noise``.

        The same in any process. A plan keeps that of the market it was made for; nature is no part of it.

        Examples
        --------
        With ``market`` as in ``calibrate``:

        >>> list(market.fingerprint())
        ['belief', 'platform', 'users', 'noise']
        >>> market.fingerprint()["belief"] == market.fingerprint()["platform"]
        True
        """
        found = {
            "belief": lambda: of_belief(self.prior),
            "platform": lambda: of_belief(self.platform_prior),
            "users": lambda: of_users(self.population),
            "noise": lambda: of_noise(self.noise),
        }
        made = {part: found[part]() for part in parts if part in found}
        if self.past is not None and ("history" in parts or tuple(parts) == PARTS):
            made["history"] = of_samples(self.past)
        return made

    def _repr_html_(self) -> str:
        return as_html("Market", self.describe())

    def describe(self) -> str:
        """The market in a few lines."""
        lines = [
            f"users believe   {self.prior.describe()}",
            f"users           {self.population.describe()}",
            f"rewards         {self.noise.describe()}",
        ]
        if self.platform_prior is not self.prior:
            lines.append(f"platform uses   {self.platform_prior.describe()}")
        if self.nature is not self.prior:
            lines.append(f"nature follows  {self.nature.describe()}")
        if self.past is not None:
            counts = self.past.counts(self.n_arms)
            n_arms = sum(n > 0 for n in counts)
            lines.append(f"private past    {sum(counts):,} samples of {n_arms:,} arm{'s' if n_arms != 1 else ''}")
        return "\n".join(lines)


def _settle_map(market: "Market", transformer: Any) -> FeatureMap | None:
    """The map from x to the belief's features: a transformer's, one that is given, or the belief's own."""
    own, users = market.prior.feature_map, market.covariates
    if transformer is not None:
        if own is not None:
            raise MarketError(
                f"The belief '{market.prior.name}' brings features of its own ({own.source}), so features= would be "
                "the features of features. Leave it out, or write the belief about the transformer's features."
            )
        if isinstance(transformer, FeatureMap):
            return transformer
        sample = users.rows if isinstance(users, Empirical) else users.sample(_FIT_USERS, seed=0)
        return of_transformer(transformer, inputs=users.features, sample=sample)
    found = market.feature_map if market.feature_map is not None else own
    if found is None:
        return None
    if found.n_inputs != users.n_features:
        raise MarketError(
            f"The features ({found.source}) are of {found.n_inputs} covariate(s), {', '.join(found.inputs[:8])}; the "
            f"users have {users.n_features}. Select columns, or build the belief for these."
        )
    _check_labels(found.inputs, users.features)
    return found


def _check_features(prior: Prior, covariates: Covariates) -> None:
    if prior.n_features != covariates.n_features:
        raise MarketError(
            f"The belief has {prior.n_features} features, the covariates have {covariates.n_features}. "
            f"Build the belief with n_features={covariates.n_features}, or select columns."
        )
    _check_labels(prior.features, covariates.features)


def _check_expansion(prior: Prior, users: Covariates) -> None:
    """Refuse users whom a nonlinear belief was not read for, and of whom it therefore tells something else."""
    if prior.expansion is None:
        return
    x = users.rows if isinstance(users, Empirical) else users.sample(_PROBED_USERS, seed=0)
    if len(x) > _PROBED_USERS:
        x = x[np.random.default_rng(0).choice(len(x), _PROBED_USERS, replace=False)]
    error, most = prior.expansion.error_for(x), prior.expansion.largest_error
    if not error <= most:
        raise MarketError(
            f"The belief '{prior.name}' is nonlinear and was read for the users in its model's inputs; these are "
            f"others (error {error:.2g} of its spread, {most:g} allowed). Fill the model's inputs with users of this "
            "market, say covariates.sample(300), and read it again."
        )
    if error > prior.expansion.told_error:
        warnings.warn(
            f"The nonlinear belief '{prior.name}' tells this market's users with an error of {error:.2g} of its "
            "spread. Fill its model's inputs with users of this market to lower it.",
            BeliefWarning,
            stacklevel=4,
        )


def _check_labels(ours: tuple[str, ...], theirs: tuple[str, ...]) -> None:
    """Refuse a belief and users that name features otherwise; default labels are no names."""
    if any(labels == default_labels(FEATURE, len(labels)) for labels in (ours, theirs)) or ours == theirs:
        return
    if set(ours) == set(theirs):
        raise MarketError(
            "Belief and covariates have the same features in another order. "
            "Reorder the columns: rows[list(prior.features)]."
        )
    raise MarketError(
        f"Belief and covariates name different features ({_difference(ours, theirs)}). "
        "Rename the columns or the belief's 'feature' coords."
    )


def _check_role(prior: Prior, other: Prior, *, role: str) -> None:
    """Refuse a platform's or nature's belief that is about other coefficients than the users'."""
    for dim, ours, theirs in ((ARM, prior.arms, other.arms), (FEATURE, prior.features, other.features)):
        if ours == theirs:
            continue
        if len(ours) != len(theirs):
            raise MarketError(
                f"{role} must have the users' {dim}s: expected {len(ours)}, got {len(theirs)}. "
                "Build it for the same arms and features."
            )
        what = f"the same {dim}s in another order" if set(ours) == set(theirs) else f"other {dim}s"
        raise MarketError(
            f"{role} has {what} than the users' belief ({_difference(ours, theirs)}). "
            f"Build it with {dim}s=list(prior.{dim}s)."
        )
    if other.has_sigma != prior.has_sigma:
        with_it, without = (role, "the users' belief") if other.has_sigma else ("the users' belief", role)
        raise MarketError(
            f"The variable 'sigma' is in {with_it} but not in {without}, so the noise is not clear. "
            "Give it to all beliefs, or to none and pass noise=GaussianNoise(sigma)."
        )


def _check_same_map(prior: Prior, other: Prior, *, users: Covariates, role: str) -> None:
    """Refuse beliefs about coefficients of different functions of x, be they called alike."""
    ours, theirs = prior.feature_map, other.feature_map
    if theirs is None or ours is theirs:
        return
    x = users.sample(_PROBED_USERS, seed=0)
    if ours is None or not np.allclose(ours(x), theirs(x), rtol=1e-8, atol=1e-10):
        raise MarketError(
            f"{role} speaks of coefficients of other functions of x than the users' belief. Write both with the same "
            "basis; nonlinear means share none."
        )


def _settle_noise(prior: Prior, noise: Noise | None) -> Noise:
    """The reward model, checked against the belief's own ``sigma``."""
    if noise is None:
        if not prior.has_sigma:
            raise MarketError("The noise is not given: pass noise=GaussianNoise(sigma) or noise=BernoulliLogit().")
        return GaussianNoise()
    if noise.needs_sigma and not prior.has_sigma:
        raise MarketError("GaussianNoise() leaves sigma to the belief, which has no variable 'sigma': give a number.")
    if prior.has_sigma and not noise.needs_sigma:
        raise MarketError(
            f"The belief has its own variable 'sigma', which {noise.describe()} contradicts. "
            "Leave noise out, or drop 'sigma' from the belief."
        )
    return noise


def _difference(ours: Sequence[str], theirs: Sequence[str], *, most: int = 3) -> str:
    """The first labels at which two lists of the same length differ: ``age, sex against Age, Sex``."""
    pairs = [(one, other) for one, other in zip(ours, theirs, strict=True) if one != other]
    one, other = (", ".join(labels) for labels in zip(*pairs[:most], strict=True))
    more = ", ..." if len(pairs) > most else ""
    return f"{one}{more} against {other}{more}"
