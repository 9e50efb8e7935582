"""A market: who believes what, who the users are, and how rewards come about.

Three beliefs may differ. Users act on ``prior``; the platform estimates with ``platform_prior``; the world draws its
coefficients from ``nature``. Margins are always the users' arithmetic, so they are computed under ``prior``; the other
two change what the platform recommends and what regret it pays.
"""

from dataclasses import dataclass

from rcb_bayes.covariates import Covariates
from rcb_bayes.errors import MarketError
from rcb_bayes.noise import GaussianNoise, Noise
from rcb_bayes.prior import Prior
from rcb_bayes.schema import FEATURE, default_labels


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Market:
    """Beliefs, users and rewards.

    Parameters
    ----------
    prior : the users' common belief about beta (arm, feature)
    covariates : the users, x ~ P_X
    noise : the reward model; may be left out when the belief carries its own ``sigma``
    platform_prior : what the platform estimates with; the users' belief unless given
    nature : where the true coefficients come from; the users' belief unless given

    Raises
    ------
    MarketError
        When numbers or labels of arms or features disagree, or it is not clear what the noise is.
    """

    prior: Prior
    covariates: Covariates
    noise: Noise | None = None
    platform_prior: Prior | None = None
    nature: Prior | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.prior, Prior):
            raise MarketError(
                f"prior must be a Prior, got {type(self.prior).__name__}. "
                "Use Prior.from_pymc(model), Prior.gaussian(mean, cov) or load_prior(name)."
            )
        if not isinstance(self.covariates, Covariates):
            raise MarketError(
                f"covariates must be a population, got {type(self.covariates).__name__}. "
                "Use Sphere(d), Ball(d), Gaussian(cov), Uniform(low, high) or Empirical(rows)."
            )
        _check_features(self.prior, self.covariates)
        object.__setattr__(self, "noise", _settle_noise(self.prior, self.noise))
        for role in ("platform_prior", "nature"):
            other = getattr(self, role)
            if other is None:
                object.__setattr__(self, role, self.prior)
            else:
                _check_same_arms(self.prior, other, role=role)

    @property
    def arms(self) -> tuple[str, ...]:
        """Arm labels."""
        return self.prior.arms

    @property
    def features(self) -> tuple[str, ...]:
        """Feature labels, the belief's."""
        return self.prior.features

    @property
    def n_arms(self) -> int:
        """K, the number of arms."""
        return self.prior.n_arms

    @property
    def n_features(self) -> int:
        """d, the number of features."""
        return self.prior.n_features

    @property
    def is_misspecified(self) -> bool:
        """Whether the platform or nature differ from what users believe."""
        return self.platform_prior is not self.prior or self.nature is not self.prior

    def describe(self) -> str:
        """The market in a few lines."""
        assert self.noise is not None  # settled on construction
        lines = [
            f"users believe   {self.prior.describe()}",
            f"users           {self.covariates.describe()}",
            f"rewards         {self.noise.describe()}",
        ]
        if self.platform_prior is not None and self.platform_prior is not self.prior:
            lines.append(f"platform uses   {self.platform_prior.describe()}")
        if self.nature is not None and self.nature is not self.prior:
            lines.append(f"nature follows  {self.nature.describe()}")
        return "\n".join(lines)


def _check_features(prior: Prior, covariates: Covariates) -> None:
    if prior.n_features != covariates.n_features:
        raise MarketError(
            f"The belief has {prior.n_features} features, the covariates have {covariates.n_features}. "
            f"Build the belief with n_features={covariates.n_features}, or select columns."
        )
    ours, theirs = prior.features, covariates.features
    named = [labels for labels in (ours, theirs) if labels != default_labels(FEATURE, len(labels))]
    if len(named) == 2 and ours != theirs:
        if set(ours) == set(theirs):
            raise MarketError(
                "Belief and covariates have the same features in another order. "
                "Reorder the columns: rows[list(prior.features)]."
            )
        odd = sorted(set(ours) ^ set(theirs))
        raise MarketError(
            f"Belief and covariates name different features (only in one of them: {', '.join(odd[:4])}). "
            "Rename the columns or the belief's 'feature' coords."
        )


def _check_same_arms(prior: Prior, other: object, *, role: str) -> None:
    if not isinstance(other, Prior):
        raise MarketError(f"{role} must be a Prior, got {type(other).__name__}. Use Prior.gaussian or Prior.from_pymc.")
    if other.arms != prior.arms or other.features != prior.features:
        raise MarketError(
            f"{role} must have the users' arms and features ({prior.n_arms} x {prior.n_features}: "
            f"{', '.join(prior.arms[:4])}; {', '.join(prior.features[:4])}), got {other.n_arms} x {other.n_features}: "
            f"{', '.join(other.arms[:4])}; {', '.join(other.features[:4])}."
        )


def _settle_noise(prior: Prior, noise: object) -> Noise:
    """The reward model, checked against the belief's own ``sigma``."""
    if noise is None:
        if not prior.has_sigma:
            raise MarketError("The noise is not given: pass noise=GaussianNoise(sigma) or noise=BernoulliLogit().")
        return GaussianNoise()
    if not isinstance(noise, Noise):
        raise MarketError(f"noise must be GaussianNoise(sigma) or BernoulliLogit(), got {type(noise).__name__}.")
    if noise.needs_sigma and not prior.has_sigma:
        raise MarketError("GaussianNoise() leaves sigma to the belief, which has no variable 'sigma': give a number.")
    if prior.has_sigma and not noise.needs_sigma:
        raise MarketError(
            f"The belief has its own variable 'sigma', so {noise.describe()} contradicts it. "
            "Leave noise out, or drop 'sigma' from the belief."
        )
    return noise
