r"""Unbiased replay: a policy meets the trial's patients in a random order, and keeps those whom chance gave its arm.

The trial drew each arm with probability :math:`e = 1/4`, whoever the patient was. A patient is *kept* where the drawn
arm is what the policy would have told her; others are passed over, and the policy never hears of them. Whatever the
policy did so far, a patient who is kept has the law of all patients and the reward of the arm she was told, so that
the kept ones are a run of the policy in the world (Li, Chu, Langford and Wang, "Unbiased offline evaluation of
contextual-bandit-based news article recommendation algorithms", 2011). About one patient in four is kept.

**The value** of a learning policy is what its first T patients get on average, T being fixed. The estimate is the
average of the rewards kept over P orders, :math:`\hat V = \sum_i \omega_i y_i`, with :math:`\omega_i` the share of all
P T places that patient i took. Its error has two parts,

.. math:: se^2 = \underbrace{\frac{n}{n - 1} \sum_i (\omega_i^2 - v_i) (y_i - \hat V)^2}_{\text{patients}}
    + \underbrace{\frac{1}{P (P - 1)} \sum_p (\bar y_p - \hat V)^2}_{\text{orders}},

:math:`v_i` the variance of :math:`\omega_i` over orders, taken out of the first part because the second has it. Where
orders are many, :math:`\omega_i` tends to :math:`\bar\pi(a_i | x_i)/(n e)`, :math:`\bar\pi` the policy averaged over
its runs, and the first part is the error of inverse weighting with it. Orders are few, so that intervals go by
Student's t with the degrees of freedom of both parts together. Left out is that with other patients the policy
would have learnt something else beyond what orders show; coverage in random halves is how the study looks at that.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rcb_bayes.errors import DataError, RcbError
from rcb_bayes.market import Market
from rcb_bayes.mechanism.decisions import EXPLOIT, ROUND_KINDS, Decisions
from rcb_bayes.running.protocol import BarePolicy, PolicyMaker
from rcb_bayes.schema import DEFAULT_SEED, FloatArray, as_count
from rcb_bayes.studies.actg.trial import ARMS, Trial

if TYPE_CHECKING:
    import pandas as pd

_AT_A_TIME = 512  # patients shown to a policy at a time


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Run:
    """One order of patients: those kept, in their order, and what was decided for them.

    Attributes
    ----------
    patient : positions in the trial, (T,)
    arm, stage : what they were told, and in which kind of round, (T,)
    probabilities : of every arm when they were told, (T, K)
    """

    patient: np.ndarray
    arm: np.ndarray
    stage: np.ndarray
    probabilities: FloatArray

    def __len__(self) -> int:
        return len(self.patient)

    @property
    def cold_start_length(self) -> int:
        """Rounds of the cold start; -1 where it did not end."""
        late = self.stage == EXPLOIT
        return int(np.flatnonzero(late)[0]) if late.any() else -1

    def log(self, trial: Trial) -> "pd.DataFrame":
        """The run as a log of the policy, for ``evaluate`` and ``audit_log``."""
        import pandas as pd

        table = pd.DataFrame(trial.features[self.patient], columns=list(trial.names))
        table["arm"] = np.array(ARMS)[self.arm]
        table["reward"] = trial.reward[self.patient]
        table["stage"] = np.array(ROUND_KINDS)[self.stage]
        return table.assign(**{f"p_{label}": self.probabilities[:, k] for k, label in enumerate(ARMS)})


def replay_runs(
    trial: Trial, policy: PolicyMaker, market: Market, *, n_orders: int = 20, seed: int = DEFAULT_SEED
) -> list[Run]:
    """A policy run over the trial's patients in several random orders.

    Parameters
    ----------
    policy : made anew for each order
    market : what it is made for; its arms and features are the trial's
    n_orders : orders of patients; two policies with one seed meet the same ones

    Raises
    ------
    RcbError
        A market with other arms or features, fewer than one order.
    """
    if tuple(market.arms) != ARMS or tuple(market.features) != trial.names:
        raise RcbError(
            f"The market must have the trial's arms {', '.join(ARMS)} and features {', '.join(trial.names)}, got "
            f"{', '.join(market.arms)} and {', '.join(market.features)}. Make it with designer_market(trial, belief)."
        )
    n_orders, seed = as_count(n_orders, name="n_orders", least=1), as_count(seed, name="seed")
    runs = []
    for child in np.random.SeedSequence(seed).spawn(n_orders):
        order, choices, own = (np.random.default_rng(part) for part in child.spawn(3))
        patients = order.permutation(len(trial))
        made = policy(market, int(own.integers(2**31)))
        runs.append(_run(trial, made, patients, choices.random((len(trial), 2))))
    return runs


def _run(trial: Trial, policy: BarePolicy, patients: np.ndarray, uniforms: FloatArray) -> Run:
    """A policy decides for patients to come as it does for users; those kept are what it learns from."""
    x, drawn, reward = trial.features[patients], trial.arm[patients], trial.reward[patients]
    kept: list[np.ndarray] = []
    told: list[Decisions] = []
    start, n = 0, len(patients)
    while start < n:
        some = slice(start, min(n, start + _AT_A_TIME))
        decisions = policy.decide(x[some], np.ascontiguousarray(x[some].T), uniforms[some])
        if not 1 <= len(decisions) <= len(x[some]):
            raise DataError(
                f"A policy must decide for 1 to {len(x[some])} users, the first ones, not {len(decisions)}."
            )
        match = np.flatnonzero(decisions.arm == drawn[start : start + len(decisions)])
        if len(match):
            own = _of(decisions, match)
            policy.update(x[start + match], own, reward[start + match])
            kept.append(start + match)
            told.append(own)
        start += len(decisions)
    at = np.concatenate(kept) if kept else np.empty(0, dtype=np.int64)
    return Run(
        patient=patients[at],
        arm=_joined([one.arm for one in told], np.int64),
        stage=_joined([one.stage for one in told], np.int8),
        probabilities=np.concatenate([one.probabilities.T for one in told]) if told else np.empty((0, len(ARMS))),
    )


def _of(decisions: Decisions, index: np.ndarray) -> Decisions:
    """Some of the decisions; nothing a policy believes changes within a block, so that others might not have been."""
    return replace(
        decisions,
        arm=decisions.arm[index],
        stage=decisions.stage[index],
        counted=decisions.counted[index],
        probabilities=decisions.probabilities[:, index],
        scores=decisions.scores[:, index],
    )


def _joined(parts: list[np.ndarray], kind: type) -> np.ndarray:
    return np.concatenate(parts).astype(kind) if parts else np.empty(0, dtype=kind)


# --- values ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayValue:
    """What the first T patients of a policy get on average; ``reached`` is the share of orders with as many.

    ``mcse`` is of patients and orders together, ``patient_mcse`` and ``order_mcse`` its two parts; of one order alone
    nothing tells them apart: ``order_mcse`` is NaN, and ``mcse`` that of inverse weighting with what it told.
    ``n_orders`` are those that the value rests on, ``n_patients`` the trial's.
    """

    value: float
    mcse: float
    patient_mcse: float
    order_mcse: float
    n_rounds: int
    reached: float
    n_orders: int
    n_patients: int

    def bounds(self, level: float, *, share: float = 1.0) -> tuple[float, float]:
        r"""An interval that misses with probability ``level``, by Student's t.

        Orders are few, and mostly theirs is the error: its degrees of freedom are those of the two parts together
        (Satterthwaite 1946), :math:`\nu = se^4 / (se_{patients}^4/(n - 1) + se_{orders}^4/(P - 1))`.

        Parameters
        ----------
        level : one minus the coverage
        share : of the patients' variance that counts, less than one where they are part of those in question
        """
        from scipy import stats

        patients = share * self.patient_mcse**2
        orders = 0.0 if self.n_orders == 1 else self.order_mcse**2
        spread = patients**2 / (self.n_patients - 1) + orders**2 / max(self.n_orders - 1, 1)
        freedom = (patients + orders) ** 2 / spread if spread > 0.0 else 1.0
        half = float(stats.t.isf(level / 2.0, freedom)) * float(np.sqrt(patients + orders))
        return self.value - half, self.value + half


def replay_value(trial: Trial, runs: list[Run], *, n_rounds: int) -> ReplayValue:
    """The value of a policy over its first ``n_rounds`` patients, from runs in several orders.

    Orders that end sooner are left out, which is fair only where they are few: ``reached`` says how many did not.

    Raises
    ------
    DataError
        No order with as many patients.
    """
    long = [run for run in runs if len(run) >= n_rounds]
    if not long or n_rounds < 2:
        most = max((len(run) for run in runs), default=0)
        raise DataError(f"No order kept {n_rounds} patients, the longest {most}. Ask for the value of fewer rounds.")
    n_orders, n = len(long), len(trial)
    places = np.zeros((n_orders, n))
    for row, run in zip(places, long, strict=True):
        row[run.patient[:n_rounds]] = 1.0 / n_rounds
    shares, means = places.mean(axis=0), places @ trial.reward
    value = float(means.mean())
    left = (trial.reward - value) ** 2 * n / (n - 1)
    if n_orders == 1:
        patients, orders = float(shares**2 @ left), np.nan
    else:
        patients = max(float((shares**2 - places.var(axis=0, ddof=1) / n_orders) @ left), 0.0)
        orders = float(means.var(ddof=1)) / n_orders
    return ReplayValue(
        value=value,
        mcse=float(np.sqrt(patients + (0.0 if n_orders == 1 else orders))),
        patient_mcse=float(np.sqrt(patients)),
        order_mcse=float(np.sqrt(orders)),
        n_rounds=n_rounds,
        reached=n_orders / len(runs),
        n_orders=n_orders,
        n_patients=n,
    )
