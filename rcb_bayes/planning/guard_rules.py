"""Guards at plan time: exploitation simulated epoch by epoch, with the guard of each epoch in force."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rcb_bayes.market import Market
from rcb_bayes.mechanism.compact import compact_gamma, compact_outlook
from rcb_bayes.mechanism.epoch_looks import looks_at_random_rounds
from rcb_bayes.mechanism.epoch_worlds import EpochWorlds, begin_exploitation
from rcb_bayes.mechanism.exploiting import Exploiting
from rcb_bayes.mechanism.guard import crowd_guard, users_guard
from rcb_bayes.mechanism.margins import critical_value
from rcb_bayes.mechanism.notions import Notion
from rcb_bayes.mechanism.outlook import LinearOutlook, Outlook
from rcb_bayes.mechanism.protocol import OneRate
from rcb_bayes.mechanism.simulator import ColdStarts, Simulator
from rcb_bayes.mechanism.streams import Stream
from rcb_bayes.planning.exploitation import GuardRule
from rcb_bayes.planning.goal import Goal
from rcb_bayes.planning.stages import LaterWorlds
from rcb_bayes.schema import FloatArray
from rcb_bayes.telling.progress import track

N_EPOCHS = 4
MULTIPLES = (1.0, 3.0, 10.0, 30.0, 100.0)
_TUNING_WORLDS = 400
_TUNING_USERS = 256
MAX_WORLDS = 500
_FLUCTUATION = 2.5
_LATER_USERS = 64  # whose cells tell how wide a band of all is
_LATER_VALUES = 2_000_000  # of worlds of exploitation, times users and arms: more than usual where these are few
_CRITICAL = 4.5  # errors: a simultaneous band over users, arms, rivals and epochs


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GuardSetting:
    """What guards are computed from, and for.

    Attributes
    ----------
    walk : the cold start that exploitation comes after
    n_worlds : simulated worlds behind a guard, at most
    audit_worlds : worlds of the audit that exploitation is to pass
    """

    simulator: Simulator
    walk: ColdStarts
    epsilon: float
    notion: Notion
    n_worlds: int
    audit_worlds: int

    @property
    def market(self) -> Market:
        """The market."""
        return self.simulator.market

    @property
    def goal(self) -> Goal:
        """What must hold for users, one by one."""
        return Goal(epsilon=self.epsilon, notion=self.notion.name, personalised=self.notion.is_per_user)

    def slack(self, n_worlds: int, *, critical: float = np.inf) -> float:
        """Standard deviations over worlds left for the audit's bands, and for its estimate to differ from ours.

        ``critical`` is how many errors a band of all cells needs, where that is known and less than usual.
        """
        fresh, wide, apart = 1.0 / self.audit_worlds, min(critical, _CRITICAL), min(critical, _FLUCTUATION)
        return float(wide * np.sqrt(fresh) + apart * np.sqrt(fresh + 1.0 / n_worlds))

    def begin(
        self, options: Exploiting, *, n_worlds: int, epoch: int = 0, comers: int | None = None
    ) -> EpochWorlds | None:
        """Worlds at the end of their cold start, of the prior as it is by some epoch, with ``comers`` of their own.

        None where no cold start ends, or rewards are not Gaussian.
        """
        ended = np.flatnonzero(self.walk.ended)
        if not len(ended) or not self.market.noise.is_gaussian:
            return None
        mechanism = OneRate(n_per_arm=self.walk.agenda, n_arms=self.market.n_arms)
        return begin_exploitation(
            self.simulator,
            self.walk,
            ended,
            mechanism=mechanism,
            options=options,
            n_worlds=n_worlds,
            purpose=Stream.PLANNED_EPOCHS,
            epoch=epoch,
            comers=comers,
        )[0]


def compute_guards(setting: GuardSetting, *, options: Exploiting) -> tuple[GuardRule, ...]:
    """The guards of the first epochs; none where no cold start ends.

    Rewards that are not Gaussian have no simulation of their epochs yet: there the guard lets the best arm through and
    nothing else, which users of the platform's belief follow whatever the data.
    """
    if not setting.market.noise.is_gaussian:
        return (closed_guard(setting.market),)
    return side_by_side_guards([setting], options=options, combine=lambda each: each[0])[0][0]


def side_by_side_guards(
    settings: Sequence[GuardSetting],
    *,
    options: Exploiting,
    combine: Callable[[list[FloatArray]], FloatArray],
    most: int = MAX_WORLDS,
) -> tuple[list[tuple[GuardRule, ...]], tuple[GuardRule, ...]]:
    """Guards of the first epochs for users of several beliefs, and the first ones' with what is left of all together.

    Every belief has worlds of its own; in all of them epochs go under what ``combine`` makes of everybody's factors.
    """
    n_worlds = min(settings[0].n_worlds, most)
    rules: list[list[GuardRule]] = [[] for _ in settings]
    together: list[GuardRule] = []
    factors: list[FloatArray] = []
    begun: list[EpochWorlds | None] = [None] * len(settings)
    for epoch in range(N_EPOCHS):
        of_panel = []
        for k, setting in enumerate(settings):
            epochs = begun[k]
            # Users whose prior has loosened reckon with other worlds, in which all epochs before were other ones, too.
            if epochs is None or options.inflation != "none":
                epochs = begun[k] = setting.begin(options, n_worlds=n_worlds, epoch=epoch)
            if epochs is None:
                return [() for _ in settings], ()
            epochs.advance_to(epoch, factors.__getitem__)
            rule, own = _rule(setting, epochs, slack=setting.slack(n_worlds))
            rules[k].append(rule)
            of_panel.append(own)
        factors.append(combine(of_panel))
        first, worlds = settings[0], begun[0]
        assert worlds is not None  # told above
        together.append(rules[0][-1] if len(settings) == 1 else _what_is_left(first, worlds, rules[0][-1], factors[-1]))
    return [tuple(each) for each in rules], tuple(together)


def _what_is_left(setting: GuardSetting, epochs: EpochWorlds, rule: GuardRule, factors: FloatArray) -> GuardRule:
    """A guard with the figures of the panel's factors, (P, K), that several beliefs leave."""
    kept, of_all = _off_best(setting, epochs, factors), _off_best(setting, epochs, None)
    closed = setting.simulator.panel.mean((factors <= 0.0).any(axis=1).astype(float))[0]
    return replace(rule, kept=kept / of_all if of_all > 0 else 1.0, closed=closed)


def later_worlds(setting: GuardSetting, *, guard: bool, horizon: int) -> LaterWorlds | None:
    """Exploitation as users meet it who cannot tell it from the cold start; None where there is none.

    Every world is looked at in the epoch that a round drawn at random from its exploitation falls into. All cold starts
    are taken to be as long as they are on average: it is the rounds after them that count.
    """
    options = Exploiting()
    everybody = setting.simulator.panel
    n_worlds = min(setting.n_worlds, max(MAX_WORLDS, _LATER_VALUES // everybody.prior_rewards.size))
    epochs = setting.begin(options, n_worlds=n_worlds)
    ended = setting.walk.ended
    if epochs is None:
        return None
    length = setting.walk.rounds(rng=setting.simulator.rng(Stream.ROUNDS))[:, ended].sum(axis=0).mean()
    rounds = horizon - float(length)
    if rounds <= 0:
        return None
    guards = compute_guards(setting, options=options) if guard else ()
    panel = everybody.users

    def guard_at(epoch: int) -> FloatArray | None:
        return guards[min(epoch, len(guards) - 1)].of(panel, goal=setting.goal) if guards else None

    rng = setting.simulator.rng(Stream.MOMENTS)
    begun = _linear(epochs.outlook)
    means, gamma, number = np.empty(begun.means.shape), np.empty(n_worlds), np.empty(n_worlds)
    platform = None if begun.platform is None else np.empty(means.shape)
    for look in looks_at_random_rounds(epochs, horizon=rounds, guard_at=guard_at, rng=rng):
        seen = _linear(look.outlook)
        means[look.worlds], gamma[look.worlds], number[look.worlds] = seen.means, look.gamma, look.epoch
        if platform is not None and seen.platform is not None:
            platform[look.worlds] = seen.platform
    means_of = setting.market.prior.mean.values, setting.market.platform_prior.mean.values
    found = LaterWorlds(
        outlook=compact_outlook(LinearOutlook(means, platform), *means_of),
        gamma=compact_gamma(gamma),
        epochs=number,
        rounds=rounds,
        slack=0.0,
        guards=guards,
    )
    some = everybody.some(_LATER_USERS, rng=rng)[0]
    terms = found.terms(panel[some], goal=setting.goal, agenda=setting.walk.agenda)
    critical = critical_value(terms, seed=setting.simulator.seed)  # at an audit's own level: all rounds are one view
    return replace(found, slack=setting.slack(n_worlds, critical=critical))


def tuned_multiple(setting: GuardSetting, *, guard: bool, horizon: int) -> tuple[float, dict[float, float]]:
    """The multiple of gamma with the least expected regret of exploitation, and that regret for each tried.

    Under the users' belief, with the guard that each multiple needs in force, so that the notion holds for all of them.
    """
    regrets = {
        multiple: exploitation_regret(setting, multiple=multiple, guard=guard, horizon=horizon).regret
        for multiple in track(MULTIPLES, description="spreads")
    }
    return min(regrets, key=lambda multiple: regrets[multiple]), regrets


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedRegret:
    """Expected regret of exploitation under the users' belief; whether some user of the panel ever needs a guard."""

    regret: float
    regret_mcse: float
    needs_guard: bool


def exploitation_regret(setting: GuardSetting, *, multiple: float, guard: bool, horizon: int) -> ExpectedRegret:
    """Regret of ``horizon`` rounds of exploitation, in worlds side by side, with the guard that it needs in force.

    Later epochs than those simulated at plan time have the last one's guard, as a run does.
    """
    epochs = setting.begin(Exploiting(spread_multiple=multiple), n_worlds=_TUNING_WORLDS, comers=_TUNING_USERS)
    if epochs is None:
        return ExpectedRegret(regret=0.0, regret_mcse=0.0, needs_guard=False)
    panel = setting.simulator.panel
    some, weights = panel.some(_TUNING_USERS, rng=setting.simulator.rng(Stream.TUNING_USERS))
    slack = setting.slack(_TUNING_WORLDS)
    total, needs_guard = np.zeros(_TUNING_WORLDS), False
    factors: FloatArray | None = None
    while True:
        if epochs.epoch < N_EPOCHS:
            factors = _rule(setting, epochs, slack=slack)[1]
            needs_guard = needs_guard or bool(factors.min() < 1.0)
        cut = factors if guard else None
        rounds = np.minimum(epochs.state.ends, horizon) - epochs.state.begins
        total += rounds * epochs.regret(panel.users[some], weights, guard=None if cut is None else cut[some])
        if (epochs.state.ends >= horizon).all():
            break
        epochs.run(cut)
        epochs.begin()
    error = float(total.std(ddof=1) / np.sqrt(_TUNING_WORLDS))
    return ExpectedRegret(regret=float(total.mean()), regret_mcse=error, needs_guard=needs_guard)


def _linear(outlook: Outlook) -> LinearOutlook:
    """The outlook of Gaussian rewards: with others guards let nothing but the best arm through."""
    assert isinstance(outlook, LinearOutlook)
    return outlook


def closed_guard(market: Market) -> GuardRule:
    """The guard that lets nothing but the best arm through."""
    return GuardRule(outlook=None, gamma=np.zeros(0), slack=0.0, factors=np.zeros(market.n_arms), kept=0.0, closed=1.0)


def _rule(setting: GuardSetting, epochs: EpochWorlds, *, slack: float) -> tuple[GuardRule, FloatArray]:
    """The guard of the epoch that has just begun, and its factors for the panel's users, (P, K)."""
    market, panel = setting.market, setting.simulator.panel
    outlook = compact_outlook(_linear(epochs.outlook), market.prior.mean.values, market.platform_prior.mean.values)
    gamma = compact_gamma(epochs.gamma)
    for_all: FloatArray | None = None
    classes = setting.simulator.alike(setting.walk.agenda)
    alike = classes if len(classes) < market.n_arms else None
    shared = {"epsilon": setting.epsilon, "notion": setting.notion, "slack": slack, "alike": alike}
    if not setting.notion.is_per_user:
        scale = 0.0 if panel.is_exact else setting.audit_worlds / panel.n_users
        for_all = crowd_guard(outlook, gamma, panel.users, panel.weights, user_scale=scale, **shared)
        factors = np.tile(for_all, (panel.n_users, 1))
    else:
        factors = users_guard(outlook, gamma, panel.users, **shared)
        # None for anybody: 2,048 users without a cut leave at most 3 in 2,048 who need one (95 %).
        for_all = np.ones(market.n_arms) if factors.min() == 1.0 else None
    kept, of_all = _off_best(setting, epochs, factors), _off_best(setting, epochs, None)
    rule = GuardRule(
        outlook=outlook if for_all is None else None,
        gamma=gamma if for_all is None else gamma[:0],
        slack=slack,
        factors=for_all,
        kept=kept / of_all if of_all > 0 else 1.0,
        closed=panel.mean((factors <= 0.0).any(axis=1).astype(float))[0],
        alike=alike if for_all is None else None,
    )
    return rule, factors


def _off_best(setting: GuardSetting, epochs: EpochWorlds, guard: FloatArray | None) -> float:
    """Average probability of recommending another arm than the best, over worlds and some users."""
    panel = setting.simulator.panel
    some, weights = panel.some(_TUNING_USERS, rng=setting.simulator.rng(Stream.OFF_BEST_USERS))
    chances = epochs.probabilities(panel.users[some], guard=None if guard is None else guard[some])
    return float((weights @ (1.0 - chances.max(axis=0))).mean())
