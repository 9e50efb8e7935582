r"""Directions in which what a plan rests on may be off, and the market as it is at any amount of each.

The plan stays as it is: it was made for the belief that was written down. What varies is

- the *users'* belief (``shift``, ``scale``, ``correlation``, ``tails``, ``family``): worlds of the audit are drawn from
  it, for it is users' arithmetic. The platform's oracle goes on believing ``market.platform_prior``, by which it
  promotes and recommends arms, and nature stays where it was, so that cold start and regret do not change;
- what everybody meets and knows (``noise``, ``users``): other rewards, other arrivals. The platform reckons with these;
- the plan's own N (``N``), with its rates and guards as they are;
- what users put up with (``epsilon``), and what they know of the clock (``knows``).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np

from rcb_bayes.belief import Prior
from rcb_bayes.belief.families import FAMILIES, matched_belief, student_belief
from rcb_bayes.belief.moving import moved
from rcb_bayes.errors import RcbError
from rcb_bayes.market import Market
from rcb_bayes.market.noise import GaussianNoise
from rcb_bayes.mechanism.knowledge import KNOWLEDGE
from rcb_bayes.planning.plan import Plan
from rcb_bayes.schema import FloatArray, suggestion
from rcb_bayes.telling.wording import brief
from rcb_bayes.users import Empirical

Unit = Literal["add", "times", "kind"]
KINDS = ("shift", "scale", "correlation", "tails", "family", "noise", "N", "users", "epsilon", "knows")
_SAMPLE = 512
_TABLE = 2048
_CONSTANT = 1e-8
_EACH_SIDE = (0.25, 0.5, 1.0, 2.0)  # standard deviations of what users expect of the arm
_MOST_CORRELATED = 0.95
_HEAVIEST = 0.45  # 1/nu; the variance exists below 1/2
_FACTORS = (0.25, 0.5, 0.71, 1.0, 1.41, 2.0, 4.0)
_TILTS = (-2.0, -1.0, 0.0, 1.0, 2.0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Case:
    """What is audited at one amount."""

    market: Market
    plan: Plan
    epsilon: float
    knows: str | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Direction:
    """A direction.

    Attributes
    ----------
    name : as asked for, such as "shift:old"
    kind : its first word
    base : the amount at which everything is as it was written down
    amounts : that are looked at unless others are asked for
    unit : how far away an amount is: by its difference from the base, by its factor, or not on a line ("kind")
    limits : between which amounts make sense
    case : what is audited at an amount
    runs_differ : whether cold start and regret depend on the amount
    words : what the amounts up to one, on one side of the base, say of the world
    labels : of amounts that are kinds
    """

    name: str
    kind: str
    base: float
    amounts: tuple[float, ...]
    unit: Unit
    limits: tuple[float, float]
    case: Callable[[float], Case]
    runs_differ: bool
    words: Callable[[float], str]
    labels: tuple[str, ...] = ()

    def distance(self, amount: float) -> float:
        """How far an amount is from the base, in the direction's unit; a factor of at least 1 where it multiplies."""
        if not np.isfinite(amount):
            return float("nan") if np.isnan(amount) else np.inf
        return max(amount / self.base, self.base / amount) if self.unit == "times" else abs(amount - self.base)

    def distance_error(self, amount: float, error: float) -> float:
        """The error of the distance, from that of the amount."""
        if not np.isfinite(amount):
            return float("nan")
        return error if self.unit != "times" or amount >= self.base else error * self.base / amount**2

    def label(self, amount: float) -> str:
        """An amount in words."""
        return self.labels[int(amount)] if self.labels else brief(amount)


def direction_of(name: str, market: Market, plan: Plan) -> Direction:
    """The direction of a name: "shift:ARM", "shift:ARM:FEATURE", "users:FEATURE", or one of the other kinds.

    Raises
    ------
    RcbError
        An unknown direction, arm or feature; a direction that this market does not have.
    """
    kind, _, rest = str(name).partition(":")
    known = (*(f"shift:{arm}" for arm in market.arms), *KINDS[1:])
    if kind not in KINDS or (kind == "shift" and not rest) or (rest and kind not in ("shift", "users")):
        close = suggestion(str(name), known)
        raise RcbError(
            f"There is no direction '{name}'.{close} Use one of {', '.join(known)}; shift:ARM:FEATURE, users:FEATURE."
        )
    found = _Maker(str(name), market, plan, rest).made[kind]()
    return replace(found, case=lru_cache(maxsize=32)(found.case))  # some beliefs take a compilation


def usual_directions(market: Market, plan: Plan) -> tuple[str, ...]:
    """What is looked at unless something else is asked for: what this market has of the usual directions."""
    found = [f"shift:{favourite(market)}"]
    for name in ("scale", "noise", "N", "epsilon"):
        try:
            direction_of(name, market, plan)
        except RcbError:
            continue
        found.append(name)
    return tuple(found)


def favourite(market: Market) -> str:
    """The arm that most users expect most of: the one that others are explored in the place of."""
    users = market.population.sample(_SAMPLE, seed=0)
    best = (users @ market.prior.mean.values.T).argmax(axis=1)
    return market.arms[int(np.bincount(best, minlength=market.n_arms).argmax())]


def everybody_more(market: Market) -> tuple[FloatArray, bool]:
    """Coefficients (d,) by which everybody expects 1 more, and whether there are such.

    Where features have no constant there are none: all coefficients alike, so that what users expect changes by 1 in
    root mean square, more for some and less for others.
    """
    users = market.population.sample(_SAMPLE, seed=0)
    found = np.linalg.lstsq(users, np.ones(len(users)), rcond=None)[0]
    if np.abs(users @ found - 1.0).max() < _CONSTANT:
        return found, True
    ones = np.ones(users.shape[1])
    return ones / np.sqrt(((users @ ones) ** 2).mean()), False


class _Maker:
    """Directions of one market and plan."""

    def __init__(self, name: str, market: Market, plan: Plan, rest: str) -> None:
        self.name, self.market, self.plan, self.rest = name, market, plan, rest
        self.made: dict[str, Callable[[], Direction]] = {
            "shift": self._shift,
            "scale": self._scale,
            "correlation": self._correlation,
            "tails": self._tails,
            "family": self._family,
            "noise": self._noise,
            "N": self._samples,
            "users": self._users,
            "epsilon": self._epsilon,
            "knows": self._knows,
        }

    def _direction(
        self,
        kind: str,
        case: Callable[[float], Case],
        words: Callable[[float], str],
        *,
        base: float,
        amounts: tuple[float, ...],
        unit: Unit,
        limits: tuple[float, float],
        runs_differ: bool = False,
        labels: tuple[str, ...] = (),
    ) -> Direction:
        return Direction(
            name=self.name,
            kind=kind,
            base=base,
            amounts=amounts,
            unit=unit,
            limits=limits,
            case=case,
            runs_differ=runs_differ,
            words=words,
            labels=labels,
        )

    @cached_property
    def _as_it_is(self) -> Case:
        return Case(market=self.market, plan=self.plan, epsilon=self.plan.epsilon)

    def _believed(self, prior: Prior) -> Case:
        """Users believe otherwise; the platform and nature do not."""
        own = self.market
        other = replace(own, prior=prior, platform_prior=own.platform_prior, nature=own.nature)
        return replace(self._as_it_is, market=other)

    def _factor(
        self, kind: str, case: Callable[[float], Case], words: Callable[[float], str], runs_differ: bool = False
    ) -> Direction:
        infinite = float("inf")
        return self._direction(
            kind, case, words, base=1.0, amounts=_FACTORS, unit="times", limits=(0.0, infinite), runs_differ=runs_differ
        )

    # --- the users' belief ---

    def _shift(self) -> Direction:
        arm, feature = self._arm_and_feature()
        prior, market = self.market.prior, self.market
        place = market.arms.index(arm)
        self._check_moves()
        if feature:
            along, exact = np.zeros(market.n_features), False
            along[prior.features.index(feature)] = 1.0
            what = f"the coefficient of {feature} for {arm}"
        else:
            along, exact = everybody_more(market)
            what = arm
        vector = np.zeros((market.n_arms, market.n_features))
        vector[place] = along
        users = market.population.sample(_SAMPLE, seed=0)
        size = 1.0 if not feature else float(np.sqrt(((users @ along) ** 2).mean()))
        spread = _spread_of(prior, place, users) / max(size, 1e-12)
        sides = tuple(float(f"{part * spread:.2g}") for part in _EACH_SIDE)

        def words(amount: float) -> str:
            more = f"{brief(abs(amount))} {'more' if amount > 0 else 'less'}"
            told = "" if exact or feature else " (root mean square over users)"
            return f"users expect up to {more} of {what}{told}"

        return self._direction(
            "shift",
            lambda amount: self._believed(moved(prior, shift=amount * vector)) if amount else self._as_it_is,
            words,
            base=0.0,
            amounts=(*(-part for part in reversed(sides)), 0.0, *sides),
            unit="add",
            limits=(-float("inf"), float("inf")),
        )

    def _arm_and_feature(self) -> tuple[str, str]:
        """The arm, whose label may itself have a colon, and the feature, if any."""
        arms, features = self.market.arms, self.market.prior.features
        if self.rest in arms:
            return self.rest, ""
        arm, _, feature = self.rest.rpartition(":")
        if arm in arms and feature in features:
            return arm, feature
        if arm in arms:
            raise RcbError(
                f"There is no feature '{feature}' to shift.{suggestion(feature, features)} Use one of "
                f"{', '.join(features[:8])}."
            )
        raise RcbError(
            f"There is no arm '{self.rest}' to shift.{suggestion(self.rest, arms)} Use one of {', '.join(arms[:8])}."
        )

    def _scale(self) -> Direction:
        prior = self.market.prior
        self._check_moves()
        if prior.has_sigma:
            raise RcbError("The direction 'scale' needs a noise that is known: this belief has a 'sigma' of its own.")
        return self._factor(
            "scale",
            lambda amount: self._believed(moved(prior, scale=amount)) if amount != 1.0 else self._as_it_is,
            lambda amount: (
                f"users are up to {brief(max(amount, 1 / amount))} times as {'unsure' if amount > 1 else 'sure'}"
            ),
        )

    def _check_moves(self) -> None:
        prior = self.market.prior
        if prior.law is None and not self.market.noise.is_gaussian:
            raise RcbError(
                f"The direction '{self.name}' needs Gaussian rewards, or a Gaussian belief: '{prior.name}' is neither "
                "with 0/1 rewards."
            )

    def _correlation(self) -> Direction:
        law = self._gaussian_law("correlation")
        k, d = self.market.n_arms, self.market.n_features
        mean, joint = law.mean(), law.covariance()
        tiles = joint.reshape(k, d, k, d)
        roots = [_symmetric_root(tiles[arm, :, arm, :]) for arm in range(k)]
        together = np.block([[one @ other.T for other in roots] for one in roots])
        apart = -together / (k - 1)
        for arm in range(k):
            own = slice(arm * d, (arm + 1) * d)
            apart[own, own] = tiles[arm, :, arm, :]

        def case(amount: float) -> Case:
            if not amount:
                return self._as_it_is
            extreme = together if amount > 0 else apart
            cov = (1.0 - abs(amount)) * joint + abs(amount) * extreme
            prior = self.market.prior
            return self._believed(_labelled(Prior.gaussian(mean, (cov + cov.T) / 2, arms=prior.arms), prior))

        return self._direction(
            "correlation",
            case,
            lambda amount: (
                f"arms go {'together' if amount > 0 else 'against one another'} by up to {brief(abs(amount))}"
            ),
            base=0.0,
            amounts=(-0.9, -0.5, 0.0, 0.5, 0.9),
            unit="add",
            limits=(-_MOST_CORRELATED, _MOST_CORRELATED),
        )

    def _tails(self) -> Direction:
        mean, sd = self._uncorrelated("tails")

        def case(amount: float) -> Case:
            if not amount:
                return self._as_it_is
            prior = self.market.prior
            tailed = student_belief(mean, sd, nu=1.0 / amount, arms=prior.arms, features=prior.features)
            return self._believed(_labelled(tailed, prior))

        return self._direction(
            "tails",
            case,
            lambda amount: (
                f"tails are no heavier than Student's with {brief(1 / amount if amount else np.inf)} degrees"
            ),
            base=0.0,
            amounts=(0.0, 0.1, 0.2, 0.33),
            unit="add",
            limits=(0.0, _HEAVIEST),
        )

    def _family(self) -> Direction:
        mean, sd = self._uncorrelated("family")

        def case(amount: float) -> Case:
            if not amount:
                return self._as_it_is
            prior = self.market.prior
            shape = matched_belief(FAMILIES[int(amount)], mean, sd**2, arms=prior.arms, features=prior.features)
            return self._believed(_labelled(shape, prior))

        return self._kinds("family", FAMILIES, case, base=0)

    def _gaussian_law(self, kind: str):
        prior = self.market.prior
        if not prior.is_gaussian or prior.law is None or prior.has_sigma:
            raise RcbError(
                f"The direction '{kind}' starts from a Gaussian belief with known noise, and '{prior.name}' is not "
                "that. Use shift, scale, noise, N, users, epsilon or knows."
            )
        return prior.law

    def _uncorrelated(self, kind: str) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviations, (K, d) each, of coefficients that are uncorrelated."""
        law = self._gaussian_law(kind)
        joint = law.covariance()
        variances = np.diag(joint)
        if np.abs(joint - np.diag(variances)).max() > 1e-12 * variances.max() or variances.min() <= 0.0:
            raise RcbError(f"The direction '{kind}' needs coefficients that are uncorrelated, each with a variance.")
        return law.mean(), np.sqrt(variances).reshape(law.n_arms, law.n_features)

    # --- what everybody meets ---

    def _noise(self) -> Direction:
        market, noise = self.market, self.market.noise
        if not isinstance(noise, GaussianNoise) or noise.sigma is None:
            raise RcbError(f"The direction 'noise' needs Gaussian rewards with a known sigma, got {noise.describe()}.")
        sigma = noise.sigma

        def case(amount: float) -> Case:
            if amount == 1.0:
                return self._as_it_is
            return replace(self._as_it_is, market=replace(market, noise=GaussianNoise(amount * sigma)))

        return self._factor(
            "noise",
            case,
            lambda amount: (
                f"rewards are up to {brief(max(amount, 1 / amount))} times as {'noisy' if amount > 1 else 'precise'}"
            ),
            runs_differ=True,
        )

    def _users(self) -> Direction:
        market = self.market
        raw = market.covariates
        if isinstance(raw, Empirical):
            rows, weights = raw.rows, raw.weights
        else:
            rows, weights = raw.sample(_TABLE, seed=0), np.full(_TABLE, 1.0 / _TABLE)
        centred = rows - weights @ rows
        along, what = self._user_axis(centred, weights)
        score = centred @ along
        score = score / np.sqrt(weights @ score**2)

        def case(amount: float) -> Case:
            if not amount and isinstance(raw, Empirical):
                return self._as_it_is
            tilt = weights * np.exp(amount * score - np.max(amount * score))
            table = Empirical(rows, weights=tilt / tilt.sum(), features=raw.features)
            return replace(self._as_it_is, market=replace(market, covariates=table))

        return self._direction(
            "users",
            case,
            lambda amount: (
                f"users are tilted by up to {brief(abs(amount))} towards {'more' if amount > 0 else 'less'} of {what}"
            ),
            base=0.0,
            amounts=_TILTS,
            unit="add",
            limits=(-4.0, 4.0),
            runs_differ=True,
        )

    def _user_axis(self, centred: FloatArray, weights: FloatArray) -> tuple[FloatArray, str]:
        """The feature that is named, or the direction in which users differ most."""
        labels = self.market.covariates.features
        spread = np.sqrt(weights @ centred**2)
        if self.rest:
            if self.rest not in labels:
                raise RcbError(
                    f"There is no feature '{self.rest}' of users.{suggestion(self.rest, labels)} Use one of "
                    f"{', '.join(labels[:8])}."
                )
            place = labels.index(self.rest)
            if spread[place] <= _CONSTANT:
                raise RcbError(f"All users have the same '{self.rest}': there is nothing to tilt towards.")
            return np.eye(len(labels))[place], self.rest
        if spread.max() <= _CONSTANT:
            raise RcbError("All users are alike: there is nobody to tilt towards.")
        axis = np.linalg.eigh((centred * weights[:, None]).T @ centred)[1][:, -1]
        axis = axis * np.sign(axis[np.abs(axis).argmax()])
        return axis, f"their first principal direction (mostly {labels[int(np.abs(axis).argmax())]})"

    # --- the plan, and what users put up with and know ---

    def _samples(self) -> Direction:
        plan = self.plan

        def samples(amount: float) -> int | tuple[int, ...]:
            """So many times the samples of every arm that has any."""
            own = plan.n_per_arm
            if isinstance(own, int):
                return max(1, round(amount * own))
            return tuple(max(1, round(amount * n)) if n else 0 for n in own)

        def case(amount: float) -> Case:
            constants = replace(plan.constants, n_per_arm=samples(amount))
            return replace(self._as_it_is, plan=replace(plan, constants=constants))

        def words(amount: float) -> str:
            n = samples(amount)
            told = f"{n:,} samples each" if isinstance(n, int) else f"{', '.join(map(str, n))} samples"
            return f"arms get no {'more' if amount > 1 else 'fewer'} than {told}"

        return self._factor("N", case, words, runs_differ=True)

    def _epsilon(self) -> Direction:
        own = self.plan.epsilon
        amounts = sorted({0.0, own / 2, own, 2 * own} if own else {0.0, 0.01, 0.05, 0.1})

        return self._direction(
            "epsilon",
            lambda amount: replace(self._as_it_is, epsilon=amount),
            lambda amount: f"users put up with no less than {brief(amount)}",
            base=own,
            amounts=tuple(amounts),
            unit="add",
            limits=(0.0, float("inf")),
        )

    def _knows(self) -> Direction:
        names = tuple(KNOWLEDGE)

        def case(amount: float) -> Case:
            return replace(self._as_it_is, knows=names[int(amount)])

        return self._kinds("knows", names, case, base=names.index(self.plan.knows))

    def _kinds(self, kind: str, labels: tuple[str, ...], case: Callable[[float], Case], *, base: int) -> Direction:
        return self._direction(
            kind,
            case,
            lambda amount: labels[int(amount)],
            base=float(base),
            amounts=tuple(float(k) for k in range(len(labels))),
            unit="kind",
            limits=(0.0, len(labels) - 1.0),
            labels=labels,
        )


def _spread_of(prior: Prior, arm: int, users: FloatArray) -> float:
    """The standard deviation of an arm's mean reward under the belief, in root mean square over users."""
    covariance = prior.covariance.values[arm, :, arm, :]
    if not np.isfinite(covariance).all():  # without a variance: the middle half of draws, as if they were normal
        drawn = prior.draw_arrays(4096, rng=np.random.default_rng(0))[0][:, arm] @ users.T
        low, high = np.quantile(drawn, [0.25, 0.75], axis=0)
        return float(np.sqrt((((high - low) / 1.349) ** 2).mean()))
    return float(np.sqrt(np.maximum(np.einsum("ud,de,ue->u", users, covariance, users), 0.0).mean()))


def _symmetric_root(covariance: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh(covariance)
    return (vectors * np.sqrt(np.clip(values, 0.0, None))) @ vectors.T


def _labelled(prior: Prior, like: Prior) -> Prior:
    """A belief with the features, and the map to them, of another."""
    prior.features, prior.feature_map = like.features, like.feature_map
    return prior
