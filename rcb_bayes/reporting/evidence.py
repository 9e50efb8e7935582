"""What the answer rests on: the belief and its assumptions, diagnostics, and how to make the page again."""

import platform
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from rcb_bayes._version import __version__
from rcb_bayes.gaps.assumptions import Check
from rcb_bayes.planning.plan_wording import guard_words
from rcb_bayes.reporting.markup import Markup, join, table, tag
from rcb_bayes.reporting.pieces import badge, chart, parameters, plain, prose, section
from rcb_bayes.reporting.words import panel, radius_words
from rcb_bayes.telling.wording import figure, percent

if TYPE_CHECKING:
    from rcb_bayes.reporting.result import Report


def belief(report: "Report", data: dict[str, Any]) -> Markup:
    """The paper's assumptions on the belief, and the frontier of gaps."""
    return section(
        "belief",
        "What the belief allows",
        prose(
            "Whether exploration needs incentives at all, and the paper's four assumptions, judged by sampling the "
            "belief. The sampled plan needs none of them; the theorem's guarantees do."
        ),
        table(
            ["assumption", "verdict", "figure", "what it means"],
            [_check(check) for check in (*([] if report.need is None else [report.need]), *report.checks)],
            class_="stack checks",
            numbers=9,
        ),
        _frontier(report, data["frontier"]),
    )


def _check(check: Check) -> list[Any]:
    value = figure(check.estimate, check.mcse)
    needed = f" ({check.asked})" if check.asked else ""
    remedy = tag("em", check.remedy) if check.remedy else None
    return [
        tag("b", check.name),
        badge(check.verdict),
        join(tag("span", value), needed),
        join(check.meaning, " ", remedy),
    ]


def _frontier(report: "Report", found: dict[str, Any]) -> Markup:
    gaps, arms = report.gaps, report.market.arms
    first, last = found["tau"][0], found["tau"][-1]
    lines = [
        f"{arms[row['arm']]} from {plain(row['rho'][0])} at tau {plain(first)} to {plain(row['rho'][-1])} at "
        f"{plain(last)}"
        for row in found["arms"]
    ]
    saturated, n = gaps.attrs["saturated"], gaps.attrs["n_per_arm"]
    rows = [
        [
            str(arm),
            *(figure(gaps[name].sel(arm=arm).item(), gaps[f"{name}_mcse"].sel(arm=arm).item()) for name in _GAPS),
        ]
        for arm in gaps["arm"].values
    ]
    return chart(
        "frontier",
        "Frontier: the chance rho(tau) that an arm leads by tau",
        alt=f"rho over tau once {saturated} is saturated: {'; '.join(lines)}.",
        note=(
            f"G is an arm's expected reward beyond that of {saturated}, which has {n:,} samples; averaged over users. "
            "Bands: ± 2 Monte Carlo errors. Dots: the tau that makes the most of tau times rho."
        ),
        head=["arm", "rho+ = Pr(G > 0)", "A = E[max(G, 0)]", "best tau", "rho at it"],
        rows=rows,
    )


_GAPS = ("prob_positive", "expected_gain", "best_tau", "best_rho")


def diagnostics(report: "Report") -> Markup:
    """Engines, what they vouch for, and how much was simulated."""
    plan, gaps, audit, runs = report.plan, report.gaps, report.audit, report.runs
    rows: list[tuple[str, Any]] = [
        ("posterior engine", gaps.attrs["engine"]),
        ("posteriors behind assumptions and gaps", _vouched(gaps.attrs["n_not_vouched"], gaps.attrs["n_worlds"])),
        ("sent to NUTS for want of trust", f"{gaps.attrs['n_sent']:,}"),
    ]
    if plan.kind == "sampled":
        rows += [
            ("posteriors behind the plan", _vouched(plan.n_not_vouched, plan.n_worlds)),
            ("worlds behind each stage of the plan", f"{plan.n_worlds:,}"),
            ("worlds of the audit it is made to pass", f"{plan.audit_worlds:,}"),
            (
                "Theorem 1, least favoured arm",
                f"tau = {figure(plan.tau, plan.tau_mcse)}, rho = {figure(plan.rho, plan.rho_mcse)}",
            ),
        ]
    guarded = plan.guards and report.guard
    rows.append(("guard in exploitation", guard_words(plan) if guarded else "none: the paper's kernel"))
    if audit is not None:
        rows.append(("audit", f"{audit.n_worlds:,} worlds a stage, {panel(audit, report.market.covariates)}"))
    if report.radius is not None:
        rows.append(("how wrong the belief may be", radius_words(report.radius)))
    if runs is not None:
        rows.append(("runs", f"{runs.sizes['world']:,} worlds of {report.horizon:,} rounds"))
    weak = report.market.population.weak_directions()
    rows.append(
        ("users' coverage, phi0", f"{report.market.population.phi0:.3g}" + (f"; weak: {weak}" if len(weak) else ""))
    )
    return section("sure", "How sure is this?", parameters(rows))


def _vouched(n_not: int, n_worlds: int) -> str:
    if not n_not:
        return "all vouched for"
    return f"{n_not:,} not vouched for (in at most {percent(min(n_not / max(n_worlds, 1), 1.0))} of the worlds)"


def repeat(report: "Report") -> Markup:
    """The command, the parameters, the versions and the seed."""
    plan, sizes = report.plan, report.sizes
    rows: list[tuple[str, Any]] = [
        ("seed", report.seed),
        ("epsilon", f"{plan.epsilon:g}"),
        ("notion", plan.notion),
        ("rates", "one for each user" if plan.personalised else "one for all users"),
        ("samples of each arm, N", plan.agenda.words),
        ("horizon", f"{report.horizon:,}"),
        ("plan", f"{plan.kind}, seed {plan.seed}, version {plan.version}" if plan.version else plan.kind),
        ("plan worlds", f"{plan.n_worlds:,}"),  # a plan at hand has its own
        *((name.replace("_", " "), f"{getattr(sizes, name):,}") for name in _SIZES if getattr(sizes, name) is not None),
        ("versions", _versions()),
    ]
    words = (
        join(
            tag("p", "The same words, the same version and the same seed give the same page:"),
            tag("pre", tag("code", report.command)),
        )
        if report.command
        else prose("The same calls with the same version and seed give the same page.")
    )
    return section("repeat", "To repeat it", words, parameters(rows))


_SIZES = ("check_worlds", "audit_worlds", "audit_users", "run_worlds", "sweep_worlds", "map_users")


def _versions() -> str:
    names = ("numpy", "pymc", "xarray")
    return ", ".join(
        [
            f"rcb-bayes {__version__}",
            *(f"{name} {version(name)}" for name in names),
            f"Python {platform.python_version()}",
        ]
    )
