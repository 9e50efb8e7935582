"""What users, and the platform, expect of every arm before any data: by that arms are promoted."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from rcb_bayes.feature_maps import FeatureMap
from rcb_bayes.market import Market
from rcb_bayes.mechanism.agenda import Agenda
from rcb_bayes.mechanism.outlook import find_rows, places_of
from rcb_bayes.mechanism.panel import Panel
from rcb_bayes.mechanism.regions import Regions
from rcb_bayes.schema import BoolArray, FloatArray, arms_among
from rcb_bayes.users.stored import Whom


@dataclass(frozen=True, kw_only=True, eq=False)
class Expectations:
    """Arms, features, and what is expected of the arms before any data.

    Attributes
    ----------
    prior_mean, platform_mean : the beliefs' means (K, d), by which arms are promoted; the latter where it differs
    known : users whose expectations are known, where rewards are not linear in beta
    whom : the population; None in a plan from a file whose users are a table, or a class of one's own
    admission : which arms are promoted when; None where all are from the start, with as many samples of each
    """

    arms: tuple[str, ...]
    features: tuple[str, ...]
    prior_mean: FloatArray
    platform_mean: FloatArray | None = None
    known: Panel | None = None
    whom: Whom | None = None
    admission: Agenda | None = None

    @property
    def feature_map(self) -> FeatureMap | None:
        """From x to features, where these are not x."""
        return None if self.whom is None else self.whom.feature_map

    def of(self, users: FloatArray) -> tuple[FloatArray, FloatArray]:
        """What users expect of every arm, and by what arms are promoted to them, (U, d) -> (U, K) each.

        That is what the platform expects, with arms that are not explored among such users last.
        """
        prior_rewards, promoted_by = self._of(users)
        if self._regions is None:
            return prior_rewards, promoted_by
        return prior_rewards, self._regions.ranked(promoted_by, self._regions.admitted(users, promoted_by))

    def admitted(self, users: FloatArray) -> BoolArray | None:
        """For whom each arm is explored, (U, d) -> (U, K); None where that is everybody."""
        return None if self._regions is None else self._regions.admitted(users, self._of(users)[1])

    @property
    def _regions(self) -> Regions | None:
        return None if self.admission is None else self.admission.regions

    def _of(self, users: FloatArray) -> tuple[FloatArray, FloatArray]:
        if self.known is not None:
            rows = find_rows(self._places, users)
            return self.known.prior_rewards[rows], self.known.promoted_by[rows]
        prior_rewards = users @ self.prior_mean.T
        return prior_rewards, prior_rewards if self.platform_mean is None else users @ self.platform_mean.T

    def check_known(self, users: FloatArray) -> None:
        """Refuse users of whom nothing is known, where rewards are not linear in beta."""
        if self.known is not None:
            find_rows(self._places, users)

    def in_order(self, saturated: Sequence[str]) -> tuple[str, ...]:
        """Some of the arms, in the order of all.

        Raises
        ------
        RcbError
            Arms that do not exist.
        """
        return arms_among(saturated, self.arms)

    def open_arms(self, saturated: tuple[str, ...]) -> list[int]:
        """Positions of the arms that may be promoted once these are saturated."""
        if self.admission is not None:
            return self.admission.open_arms(position for position, arm in enumerate(self.arms) if arm in saturated)
        return [position for position, arm in enumerate(self.arms) if arm not in saturated]

    @property
    def n_levels(self) -> int:
        """How many arms are saturated when the cold start is over."""
        return len(self.arms) if self.admission is None else self.admission.n_levels

    @cached_property
    def _places(self) -> dict[bytes, int]:
        """Where each known user stands."""
        return {} if self.known is None else places_of(self.known.users)


def expectations_of(market: Market, *, known: Panel | None = None, admission: Agenda | None = None) -> Expectations:
    """What users and the platform of a market expect; ``known`` are users of rewards that are not linear in beta."""
    same = market.platform_prior is market.prior
    return Expectations(
        arms=market.arms,
        features=market.prior.features,
        prior_mean=market.prior.mean.values,
        platform_mean=None if same else market.platform_prior.mean.values,
        known=known,
        whom=Whom(market.covariates, market.feature_map),
        admission=admission,
    )
