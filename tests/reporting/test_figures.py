"""Every figure of four small pages, computed again from the results that they rest on, with plain NumPy."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

import rcb_bayes as rcb
from rcb_bayes.reporting import Report, ReportSizes
from rcb_bayes.telling.wording import brief, figure, percent, times
from tests.reporting.test_page import Walk

ARMS, FEATURES = ("old", "new", "odd"), ("base", "age")
SMALL = ReportSizes(
    check_worlds=100, plan_worlds=300, audit_worlds=300, audit_users=20, run_worlds=20, radius_worlds=60,
    map_users=30, payment_worlds=0, n_multiples=(2.0,), epsilons=(0.15, 0.2),
)  # fmt: skip
# Figures that are words: names of assumptions, of theorems, of what a band is, and of papers.
FIXED = (
    "0 greedy suffices", "1 fighting chance", "2 posterior separation", "3 covariates (phi0)", "4 evolution of trust",
    "Theorem 1, least", "Theorem 1 with", "± 2", "ICML 2026", "arXiv 2406.04374", "phi0", "once in 200 rounds",
    "95 % bounds",
)  # fmt: skip


def market_of(users: rcb.users.Covariates, sigma: float = 0.3) -> rcb.Market:
    prior = rcb.Prior.gaussian([[0.2, 0], [0.1, 0], [0, 0]], 0.25, arms=ARMS, features=FEATURES)
    return rcb.Market(prior=prior, covariates=users, noise=rcb.GaussianNoise(sigma))


@cache
def page_of(name: str) -> Report:
    table = rcb.Empirical([[1, age] for age in (-1.0, -0.3, 0.3, 1.0)], features=FEATURES)
    market = market_of(table)
    asked = {"epsilon": 0.15, "n_per_arm": 10, "horizon": 400, "sizes": SMALL, "seed": 1}
    if name == "fixed":
        plan = rcb.fixed_plan(market, n_per_arm=10, exploration_rate=0.8, epsilon=0.15)
        return rcb.report(market, plan, horizon=200, sizes=SMALL, seed=1)
    if name == "late":  # with continuous users
        market = market_of(rcb.Uniform([1, -1], [1.0001, 1], features=FEATURES))
        return rcb.report(
            market, **asked | {"epsilon": 0.2, "horizon": 20, "sizes": replace(SMALL, knowledge_worlds=0)}
        )
    if name == "untold":
        # Beliefs in whose closed form worlds differ by who was sampled alone tell with fifty of them.
        labels = {"n_arms": 3, "n_features": 2, "arms": ARMS, "features": FEATURES}
        belief = rcb.load_prior("student_t", mean=[[0.2, 0], [0.1, 0], [0, 0]], scale=0.35, **labels)
        market = rcb.Market(prior=belief, covariates=table, noise=rcb.GaussianNoise(0.3))
        few = replace(SMALL, plan_worlds=50, audit_worlds=50, epsilons=(0.03, 0.3))
        return rcb.report(market, **asked | {"epsilon": 0.03, "n_per_arm": 30, "sizes": few})
    return rcb.report(market, **asked)


def sections(html: str) -> dict[str, str]:
    """The words of each section, and of the top."""
    parts = re.split(r'<section id="(\w+)"', html.split("<footer")[0])
    found = {"top": Walk(parts[0].split("<main>")[1]).text}
    for name, text in zip(parts[1::2], parts[2::2], strict=True):
        found[name] = Walk(f"<section {text}").text
    return found


def left_over(text: str, phrases: list[str]) -> list[str]:
    """Figures of a text that no phrase accounts for."""
    for phrase in sorted((" ".join(one.split()) for one in (*phrases, *FIXED)), key=len, reverse=True):
        text = re.sub(rf"(?<![\d.,]){re.escape(phrase)}(?![.,]?\d)", " ", text)
    return re.findall(r"\d[\d.,]*", text)


# --- the same figures again ------------------------------------------------------------------------------------------


def mean(values: np.ndarray) -> tuple[float, float]:
    return float(values.mean()), float(values.std(ddof=1) / len(values) ** 0.5)


def minus(text: str) -> str:
    return text.replace("-", "\N{MINUS SIGN}")


def plain(value: float) -> str:
    return minus(brief(float(f"{value:.4g}")))


def following(report: Report, epsilon: float) -> str:
    """The share of users at random all of whose margins are at least -epsilon."""
    audit = report.audit
    assert audit is not None
    own = audit.margins["estimate"].isel(user=slice(0, audit.n_random))
    least = np.nanmin(own.transpose("user", ...).values.reshape(own.sizes["user"], -1), axis=1)
    users = np.asarray(audit.users)
    share = float((least >= -epsilon - 1e-9).mean())  # the rows of the table weigh the same
    error = 0.0 if len(users) == 4 else float(audit.compliance["share_mcse"].sel(epsilon=epsilon, method="nearest"))
    return percent(share, error)


def deciding(cells: list[tuple[int, float, tuple[int, ...]]]) -> tuple[int, float, tuple[int, ...]]:
    """The lowest of the cells with the worst verdict."""
    worst = max(code for code, _, _ in cells)
    return min((cell for cell in cells if cell[0] == worst), key=lambda cell: cell[1])


def cells_of(margins) -> list[tuple[int, float, tuple[int, ...]]]:
    codes, values = margins["verdict"].values, margins["estimate"].values
    known = np.isfinite(values) & (codes >= 0)
    return [(int(codes[at]), float(values[at]), at) for at in zip(*np.nonzero(known), strict=True)]


def margin_rows(report: Report) -> Iterator[str]:
    assert report.audit is not None
    words = ("pass", "inconclusive", "fail")
    for stage in report.audit.margins["stage"].values:
        one = report.audit.margins.sel(stage=stage)
        code, _, at = deciding(cells_of(one))
        place = dict(zip(one["estimate"].dims, at, strict=True))
        cell = one.isel(place)
        arm, rival = str(cell["arm"].item()), str(cell["rival"].item())
        figures = " ".join(plain(float(cell[key])) for key in ("estimate", "mcse", "lower", "upper"))
        yield f"{stage} {words[code]} {arm} {rival} {figures}"


def pair_figures(report: Report) -> Iterator[str]:
    assert report.audit is not None
    found = {}
    for i, j in ((i, j) for i in range(3) for j in range(3) if i != j):
        cells = cells_of(report.audit.margins.isel(arm=i, rival=j))
        if cells:
            found[i, j] = deciding(cells)[1]
    size = max(abs(value) for value in found.values())
    places = min(max(2 - int(np.floor(np.log10(size))), 0), 6)
    for i, arm in enumerate(ARMS):
        row = [minus(f"{float(f'{found[i, j]:.4g}'):z.{places}f}") for j in range(3) if (i, j) in found]
        if not row:
            continue
        signs = r"(?:[?✕] )?"
        yield rf"{arm} {signs}" + rf" {signs}".join(map(re.escape, row))


def regret_of(report: Report) -> tuple[float, float]:
    assert report.runs is not None
    return mean(report.runs["regret"].transpose("world", "t").values.sum(axis=1))


def often(report: Report) -> tuple[str, str]:
    """Explored rounds over rounds once an arm is saturated, in words."""
    assert report.runs is not None
    kinds = report.runs["stage"].transpose("world", "t").values
    explored, rounds = (kinds == 1).sum(axis=1), ((kinds == 1) | (kinds == 2)).sum(axis=1)
    ratio = rounds.sum() / explored.sum()
    error = np.std(rounds - ratio * explored, ddof=1) / (len(rounds) ** 0.5 * explored.mean())
    return f"once in {figure(ratio, error)} rounds", f"{brief(explored.mean())} of {brief(rounds.mean())} once"


def explored_share(report: Report, weights: np.ndarray, users: np.ndarray) -> float:
    """The share of users who are explored at a stage that one cold start in twenty passes, stage by stage."""
    plan = report.plan
    usual = [stage for stage in plan.stages if stage.share >= 0.05]
    explored = np.any([plan.rate(users, saturated=list(stage.saturated)) > 0 for stage in usual], axis=0)
    return float(weights @ explored)


def averaged(plan: rcb.Plan, key: str) -> float:
    shares = np.array([stage.share for stage in plan.stages])
    return float(shares @ [getattr(stage, key) for stage in plan.stages] / shares.sum())


def length(plan: rcb.Plan) -> str:
    return figure(plan.expected_cold_start, plan.expected_cold_start_mcse)


def answer_phrases(report: Report) -> list[str]:
    plan, audit, runs = report.plan, report.audit, report.runs
    found = [f"epsilon = {plan.epsilon:g}"]
    if not plan.feasible:
        later = [one for one in report.sweep if one.feasible and one.epsilon > plan.epsilon]
        told = [f"{plan.n_worlds:,} worlds do not tell", plan.reason]
        return [
            *found,
            *told,
            *(f"At epsilon = {one.epsilon:g} there is a plan, with a cold start of {length(one)}" for one in later[:1]),
        ]
    assert audit is not None
    assert runs is not None
    n_users = audit.margins.sizes["user"]
    users = 4 if len(np.unique(audit.users, axis=0)) == 4 else n_users
    found += [
        f"In {audit.n_worlds:,} fresh worlds",
        f"none of the {users:,} users",
        f"Not within {report.horizon:,} rounds",
    ]
    found += [f"It takes {plan.n_per_arm} samples of each of 3 arms and about {length(plan)} rounds"]
    ended = runs["cold_start_length"].values >= 0
    share, n = ended.mean(), len(ended)
    error = max(np.sqrt(share * (1 - share) / (n - 1)), 2 / n * (n * min(share, 1 - share) < 4))
    found.append(f"It ends within {report.horizon:,} rounds in {percent(float(share), float(error))} of runs")
    cell = deciding(cells_of(audit.margins))[2]
    worst = audit.margins.isel(dict(zip(audit.margins["estimate"].dims, cell, strict=True)))
    bounds = [brief(float(worst[key])) for key in ("estimate", "lower", "upper")]
    found.append(f"at {bounds[0]} (bounds {bounds[1]} to {bounds[2]})")
    found.append(f"{following(report, audit.epsilon)} of users at random would follow")
    if report.radius is not None:
        found += radius_phrases(report)
    return found


def radius_phrases(report: Report) -> list[str]:
    assert report.radius is not None
    one = report.radius.isel(direction=0)
    verdicts = dict(zip(one["amount"].values.tolist(), one["verdict"].values.tolist(), strict=True))
    first = min((amount for amount, verdict in verdicts.items() if verdict != "pass"), default=np.inf)
    passed = max((amount for amount in verdicts if 0 < amount < first), default=None)
    ends = figure(float(one["fails_above"]), float(one["fails_above_mcse"]))
    told = [f"In audits of {report.radius.attrs['n_worlds']} worlds", f"by the estimates it fails from {ends} more of"]
    return told + ([] if passed is None else [f"if users expect up to {brief(passed)} more"])


def top(report: Report) -> list[str]:
    plan, need = report.plan, report.need
    assert need is not None
    found = [*answer_phrases(report), "3 arms", "3 arms, 2 features", "sigma = 0.3", "4 observed rows, 2 features"]
    found += [f"phi0 = {report.market.population.phi0:.4g}", f"in {percent(need.estimate, need.mcse)} of worlds"]
    found += ["uniform in a box, 2 features", f"back to {plan.epsilon:g}"]
    if not plan.feasible:
        return found
    assert report.audit is not None
    users = report.users
    weights = np.full(len(users), 1 / len(users))
    rate = figure(plan.exploration_rate, plan.exploration_rate_mcse)
    if plan.personalised:
        share = explored_share(report, weights, users)
        assert abs(share - plan.share_explored) < (1e-9 if len(users) == 4 else 0.2)
        assert plan.exploration_rate == pytest.approx(averaged(plan, "rate"))
        told = often(report)
        found += [percent(plan.share_explored), f"{percent(averaged(plan, 'share_free'))} need no subsidy", *told]
    else:
        found += [f"once in {brief(1 / 0.8)} rounds"]
    found += [f"q = {rate}", f"N = {plan.n_per_arm}", "of each of 3 arms", length(plan)]
    found += [f"rounds, {times(plan.expected_cold_start / report.horizon)} of {report.horizon:,}"]
    found += [f"{figure(*regret_of(report))} regret of a whole run, {report.horizon:,} rounds"]
    return [*found, f"{following(report, report.audit.epsilon)} of users"]


def who(report: Report) -> list[str]:
    plan, users = report.plan, report.users
    found = [
        "above 0 to 1",
        "at a rate from 0 to 1",
        "at the rate 1",
        f"At epsilon = {plan.epsilon:g}",
        f"Of the {len(users)} users",
    ]
    found += [
        percent(plan.share_explored),
        percent(plan.share_free),
        figure(plan.exploration_rate, plan.exploration_rate_mcse),
    ]
    for one in report.sweep:
        rates = one.rate(users)
        coarse = np.where(rates < 0.005, 0.0, np.round(rates, 3))
        shares = [(coarse == 0).mean(), ((coarse > 0) & (coarse < 1)).mean(), (coarse >= 1).mean()]
        found.append(f"{one.epsilon:g} " + " ".join(percent(float(share)) for share in shares))
        rate = figure(one.exploration_rate, one.exploration_rate_mcse)
        regret = figure(one.expected_regret, one.expected_regret_mcse)
        last = f"{length(one)} {regret}" if one.feasible else "not feasible -"
        head = f"{one.epsilon:g} {percent(one.share_explored)} {percent(one.share_free)} {rate}"
        found += [f"{head} {last}", f"{one.epsilon:g} {last}"]
    if plan.personalised and plan.feasible:
        found += group_rows(report)
    return found


def group_rows(report: Report) -> list[str]:
    plan, users = report.plan, report.users
    rates = plan.rate(users)
    usual = [list(stage.saturated) for stage in plan.stages if stage.share >= 0.05]
    explored = np.any([plan.rate(users, saturated=names) > 0 for names in usual], axis=0)
    return [
        f"{name} {percent(float(some.mean()))} {rates[some].mean():.3f} {percent(float(explored[some].mean()))}"
        for values in users.T
        for name, some in parts_of(values)
    ] + ["differ by less than 0.01"]


def parts_of(values: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """Four values one by one, more in thirds."""
    if len(np.unique(values)) <= 4:
        return [(brief(float(value)), values == value) for value in np.unique(values)]
    low, high = (np.sort(values)[int(np.ceil(len(values) * part - 1e-9)) - 1] for part in (1 / 3, 2 / 3))
    told = (f"below {brief(low)}", f"{brief(low)} to {brief(high)}", f"from {brief(high)}")
    return list(zip(told, (values < low, (values >= low) & (values < high), values >= high), strict=True))


def follow(report: Report) -> list[str]:
    audit = report.audit
    if audit is None:
        return []
    n = audit.margins.sizes["user"]
    whole = len(np.unique(audit.users, axis=0)) == 4
    panel = "all 4 different users of the table" if whole else f"{n} users ({audit.n_random} at random, the rest"
    grid = audit.compliance["epsilon"].values[::10]
    found = [f"{audit.n_worlds:,} fresh worlds a stage, {panel}", *margin_rows(report), *audit.notes]
    return [*found, *(f"{brief(float(epsilon))} {following(report, float(epsilon))}" for epsilon in grid)]


def stages(report: Report) -> list[str]:
    plan = report.plan
    found = [f"its {plan.n_per_arm} samples", *plan.notes]
    for stage in plan.stages:
        rate = figure(stage.rate, stage.rate_mcse)
        shares = f"{percent(stage.share_explored)} {percent(stage.share_free)}"
        found.append(f"{' and '.join(stage.saturated)} {percent(stage.share)} {rate} {shares}")
    for k, arm in enumerate(plan.arms if plan.coverage else ()):
        cover = plan.coverage[k]
        told = figure(cover, plan.coverage_mcse[k]) if np.isfinite(cover) else "never saturated"
        found.append(f"{arm} {figure(plan.expected_pulls[k], plan.expected_pulls_mcse[k])} {told}")
    beside = report.theorem
    if beside is not None:
        found += [f"N = {beside.n_per_arm:,} samples", f"a cold start of {length(beside)} rounds"]
        found += [f"probability rho rho* = {brief(beside.guarantee_probability)}"]
    return found + sizes(report)


def sizes(report: Report) -> list[str]:
    found = report.by_size
    if found is None:
        return []
    rows = [f"N {' '.join(f'epsilon = {value:g}' for value in found['epsilon'].values)}"]
    for n in found["n"].values:
        row = found.sel(n=n)
        cells = zip(
            row["expected_cold_start"].values,
            row["expected_cold_start_mcse"].values,
            row["feasible"].values,
            strict=True,
        )
        rows.append(f"{n} " + " ".join(figure(value, error) if ok else "not feasible" for value, error, ok in cells))
    return [*rows, f"{found.attrs['n_worlds']:,} worlds behind each stage"]


def known(report: Report) -> list[str]:
    prices, plan = report.knowledge, report.plan
    if prices is None:
        return []
    own = prices.sel(knows=plan.knows)
    if plan.feasible:
        assert float(own["expected_cold_start"]) == plan.expected_cold_start  # the plan's own worlds
    rows = [
        f"N = {plan.n_per_arm}, {plan.n_worlds:,} worlds",
        f"in any of {report.horizon:,} rounds",
        f"With {plan.n_worlds} worlds",
    ]
    for name in prices["knows"].values:
        one = prices.sel(knows=name)
        if bool(one["feasible"]):
            keys = ("expected_cold_start", "expected_regret", "exploration_rate")
            told = " ".join(figure(float(one[key]), float(one[f"{key}_mcse"])) for key in keys)
            rows.append(f"({name}) {told} {percent(float(one['share_explored']))}")
    return rows


def cost(report: Report) -> list[str]:
    runs = report.runs
    if runs is None:
        return []
    regret = runs["regret"].transpose("world", "t").values
    n, rounds = regret.shape
    lengths = runs["cold_start_length"].values
    ended = lengths[lengths >= 0]
    found = [
        f"in {n} worlds of {report.horizon} rounds",
        f"a whole run is {figure(*regret_of(report))}",
        f"the same {n} worlds",
    ]
    if len(ended):
        found.append(f"ended after {figure(*mean(ended))} rounds on average")
    found += [f"in {n - len(ended)} of {n} worlds not at all", f"in {n - len(ended)} of them"]
    total = regret.cumsum(axis=1)
    found += [f"{k + 1:,} {plain_pair(total[:, k])}" for k in range(rounds)]
    gain = runs["gain"].transpose("world", "t").values
    edges = np.unique(np.geomspace(1, rounds + 1, 25).astype(int)) - 1
    for start, stop in pairwise(edges):
        middle = float(f"{np.sqrt((start + 1) * stop):.3g}")
        found.append(f"{brief(middle)} {plain_pair(gain[:, start:stop].mean(axis=1))}")
    samples = runs["n_samples"].transpose("world", "arm").values
    for arm, values in zip(ARMS, samples.T, strict=True):
        found.append(f"{arm} {float(f'{values.mean():.4g}'):,.0f} {plain(float(f'{mean(values)[1]:.2g}'))}")
    return found + yardsticks(report)


def plain_pair(values: np.ndarray) -> str:
    value, error = mean(values)
    return f"{plain(value)} {plain(float(f'{error:.2g}'))}"


def yardsticks(report: Report) -> list[str]:
    """In the worlds of the runs: what the favourite costs is known of each user, what greedy costs was simulated."""
    found = report.yardsticks
    assert found is not None
    assert report.runs is not None
    own = report.runs["regret"].transpose("world", "t").values.sum(axis=1)
    assert float(found["regret"][0]) == pytest.approx(own.mean())
    rows = [f"this plan {figure(*mean(own))} \N{EN DASH}"]
    for policy in found["policy"].values[1:]:
        one = found.sel(policy=policy)
        told = [figure(float(one[key]), float(one[f"{key}_mcse"])) for key in ("regret", "apart")]
        rows.append(f"{policy} {told[0]} {told[1] if np.isfinite(one['apart']) else chr(0x2013)}")
    return rows


def belief(report: Report) -> list[str]:
    assert report.need is not None
    found = []
    for check in (report.need, *report.checks):
        found += [
            f"{check.verdict} {figure(check.estimate, check.mcse)}",
            check.asked or " ",
            check.meaning,
            check.remedy or " ",
        ]
    if report.yardsticks is not None:
        assert figure(*regret_of(report)) in report.need.meaning
    gaps, n = report.gaps, report.gaps.attrs["n_per_arm"]
    found.append(f"which has {n:,} samples")
    found += ["rho+ = Pr(G > 0) A = E[max(G, 0)]"]
    for arm in gaps["arm"].values:
        one = gaps.sel(arm=arm)
        keys = ("prob_positive", "expected_gain", "best_tau", "best_rho")
        found.append(f"{arm} " + " ".join(figure(one[key].item(), one[f"{key}_mcse"].item()) for key in keys))
    return found


def sure(report: Report) -> list[str]:
    plan, gaps, audit = report.plan, report.gaps, report.audit
    found = [f"want of trust {gaps.attrs['n_sent']:,}", f"users' coverage, phi0 {report.market.population.phi0:.3g}"]
    found += [f"each stage of the plan {plan.n_worlds:,}", f"made to pass {plan.audit_worlds:,}"]
    found.append(f"tau = {figure(plan.tau, plan.tau_mcse)}, rho = {figure(plan.rho, plan.rho_mcse)}")
    for rule in plan.guards[:1]:
        last = plan.guards[-1]
        found.append(f"keeps {percent(rule.kept)} of off-best recommendations at first, {percent(last.kept)} later")
        found.append(f"{percent(last.closed)} of users have an arm closed")
    if audit is not None:
        found += follow(report)[:1] and [
            f"audit {audit.n_worlds:,} worlds a stage",
            "all 4 different users",
            f"{audit.margins.sizes['user']} users ({audit.n_random} at random",
        ]
    if report.runs is not None:
        found.append(f"runs {report.runs.sizes['world']} worlds of {report.horizon} rounds")
    found += radius_phrases(report) if report.radius is not None else []
    return [*found, "weak:", f"of {len(report.users)}"]


def protocol(report: Report) -> list[str]:
    plan = report.plan
    found = [
        f"We compare 3 arms (old, new, odd) for {report.horizon} users",
        plan.reason or " ",
        "rcb_bayes " + rcb.__version__,
    ]
    if not plan.feasible:
        return found
    assert report.audit is not None
    found += [
        f"a first stage {plan.n_per_arm} outcomes",
        f"to last {length(plan)} users",
        f"epsilon = {plan.epsilon:g} units",
        "sigma = 0.3",
        "seed 1",
    ]
    found += [
        often(report)[0],
        f"({report.audit.n_worlds} draws from that belief",
        f"above 0 for {percent(plan.share_explored)}",
    ]
    return [*found, f"probability {figure(plan.exploration_rate, plan.exploration_rate_mcse)}"]


def repeat(report: Report) -> list[str]:
    plan, asked = report.plan, report.sizes
    found = [
        "seed 1",
        f"epsilon {plan.epsilon:g}",
        f"N {plan.n_per_arm}",
        f"horizon {report.horizon:,}",
        f"plan worlds {plan.n_worlds:,}",
    ]
    for name in ("check_worlds", "audit_worlds", "audit_users", "run_worlds", "map_users"):
        found.append(f"{name.replace('_', ' ')} {getattr(asked, name):,}")
    return [*found, f"version {rcb.__version__}"]


SECTIONS: dict[str, Callable[[Report], list[str]]] = {
    "top": top, "who": who, "follow": follow, "plan": stages, "known": known, "cost": cost, "belief": belief,
    "sure": sure, "protocol": protocol, "repeat": repeat,
}  # fmt: skip


def told_in(report: Report) -> dict[str, str]:
    """What is looked at: each section but for the versions of packages, and the cells of the matrix of pairs."""
    words = {name: text for name, text in sections(report.to_html()).items() if name in SECTIONS}
    words["repeat"] = words["repeat"].split(" versions ")[0]
    for row in pair_figures(report) if report.audit is not None else ():
        words["follow"], n_found = re.subn(row, " ", words["follow"])
        assert n_found
    return words


def unaccounted(report: Report, words: dict[str, str]) -> dict[str, list[str]]:
    """Figures that nothing computed here accounts for, by section."""
    found = {name: left_over(words[name], phrases(report)) for name, phrases in SECTIONS.items()}
    return {name: figures for name, figures in found.items() if figures}


PAGES = {"table": "pass", "late": "fail", "fixed": "fail", "untold": "inconclusive"}
_LONG = [pytest.param(name, marks=pytest.mark.slow) if name == "table" else name for name in PAGES]


@pytest.mark.parametrize("name", _LONG)
def test_every_figure_of_a_page_is_one_of_its_results(name: str) -> None:
    report = page_of(name)
    assert report.verdict == PAGES[name]
    words = told_in(report)
    assert unaccounted(report, words) == {}
    rng = np.random.default_rng(1)
    for section in words:  # planted: a digit that is another one
        places = [found.start() for found in re.finditer(r"\d", words[section])]
        for at in rng.choice(places, size=min(3, len(places)), replace=False):
            digit = str((int(words[section][at]) + 1) % 10)
            wrong = words[section][:at] + digit + words[section][at + 1 :]
            assert unaccounted(report, words | {section: wrong}).keys() == {section}, wrong[at - 60 : at + 20]
