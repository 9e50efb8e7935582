"""What the study says, in words."""

from typing import TYPE_CHECKING, Any

import numpy as np

from rcb_bayes.telling.wording import figure

if TYPE_CHECKING:
    from rcb_bayes.studies.actg.result import ActgResult

PRIMARY = ("dr", "replay")
"""The methods whose values are told: of fixed policies, and of learning ones."""


def summary_of(found: "ActgResult") -> str:
    """All of it, table by table."""
    asked = found.asked
    lines = [found.trial, ""]
    lines += _checks(found)
    lines += ["", "what Theorem 1 asks for, measured on each belief"]
    lines += ["  " + _constants(row) for row in _rows(found.constants)]
    lines += ["", f"plans by sampling, notion user, N = {asked['n_per_arm']} of each arm; epsilon 0.1 is ten CD4 cells"]
    lines += ["  " + _plan(row) for row in _rows(found.plans)]
    if len(found.audits):
        lines += ["", f"audits in {asked['audit_worlds']:,} fresh worlds: verdict, and the margin that decides"]
        lines += _audits(found)
    lines += [
        "",
        "value of each policy, mean reward of a patient, 95 % interval",
        "  fixed policies: of patients to come, doubly robust, from all patients; learning ones: of their first "
        f"{asked['n_rounds']} patients, by replay in {asked['n_orders']} orders",
    ]
    lines += ["  " + _value(row) for row in _rows(found.values) if row["method"] in PRIMARY]
    if len(found.logs):
        lines += [
            "",
            "what logs of RCB's own say of each arm: average, and in how many the 95 % interval holds the trial's",
        ]
        lines += ["  " + _log(row) for row in _rows(found.logs) if row["n_logs"]]
    if len(found.coverage):
        lines += [
            "",
            "random halves whose 95 % interval holds the value over all patients "
            "(with the finite-population correction; without it)",
        ]
        lines += ["  " + _covered(row) for row in _rows(found.coverage)]
    return "\n".join(lines)


def _rows(table: Any) -> list[dict[str, Any]]:
    return table.to_dict("records")


def _checks(found: "ActgResult") -> list[str]:
    lines = ["the paper's assumptions, after N samples of each arm: verdict and the figure that decides"]
    for belief in found.asked["beliefs"]:
        own = [row for row in _rows(found.checks) if row["belief"] == belief]
        told = "; ".join(f"{row['check']}: {row['verdict']}{_shown(row)}" for row in own)
        lines.append(f"  {belief:<14}{told}")
    return lines


def _shown(row: dict[str, Any]) -> str:
    if not _known(row["estimate"]):
        return ""
    return f" ({figure(float(row['estimate']), float(row['mcse']) if _known(row['mcse']) else 0.0)})"


def _constants(row: dict[str, Any]) -> str:
    return (
        f"{row['belief']:<14}epsilon {row['epsilon']:<5g}tau {row['tau']:.2f}, rho {row['rho']:.2f}, "
        f"tau* {row['tau_star']:.2f}, rho* {row['rho_star']:.2f}, L = {row['inverse_rate']:.2f}, "
        f"N = {row['n_per_arm']:,.0f} of each arm"
    )


def _plan(row: dict[str, Any]) -> str:
    what = f"{row['belief']:<14}epsilon {row['epsilon']:<5g}"
    if not row["feasible"]:
        return f"{what}not feasible. {row['reason']}"
    length = figure(float(row["cold_start"]), float(row["cold_start_mcse"]))
    text = f"{what}rate {figure(float(row['rate']), float(row['rate_mcse']))}, cold start {length} patients"
    if _known(row["ended"]):
        text += f"; replayed: {float(row['ended']):.0%} of orders end it"
    return text + (f", after {float(row['replayed_cold_start']):.0f}" if _known(row["replayed_cold_start"]) else "")


def _audits(found: "ActgResult") -> list[str]:
    lines = []
    for row in _rows(found.audits):
        margin = figure(float(row["margin"]), float(row["margin_mcse"])) if _known(row["margin"]) else "none"
        lines.append(f"  {row['belief']:<14}epsilon {row['epsilon']:<5g}{row['notion']:<12}{row['verdict']} ({margin})")
    return lines


def policy_name(row: dict[str, Any]) -> str:
    """A policy as figures and the summary call it."""
    name = row["policy"] + (f", {row['belief']}" if row["belief"] else "")
    return name + (f", epsilon {row['epsilon']:g}" if _known(row["epsilon"]) else "")


def _value(row: dict[str, Any]) -> str:
    text = f"{policy_name(row):<36}{row['value']:>7.3f} ± {row['mcse']:.3f}  ({row['lower']:.3f} to {row['upper']:.3f})"
    told = [
        f"{key.removeprefix('share_')} {row[key]:.0%}" for key in row if key.startswith("share_") and _known(row[key])
    ]
    return text + (f"  told {', '.join(told)}" if told else "")


def _log(row: dict[str, Any]) -> str:
    return (
        f"{row['belief']:<14}epsilon {row['epsilon']:<5g}{row['arm']:<8}{row['estimator']:<9}{row['value']:>7.3f} "
        f"(trial {row['trial']:.3f})  {row['covered']:.0%} of {row['n_logs']:.0f}, width {row['width']:.2f}"
    )


def _covered(row: dict[str, Any]) -> str:
    n = int(row["n"])
    held, plain = int(row["held"]) / n, int(row["held_uncorrected"]) / n
    error = np.sqrt(held * (1.0 - held) / n)
    return f"{row['policy']:<16}{row['method']:<8}{100 * held:.1f} ± {100 * error:.1f} % ({100 * plain:.1f} %) of {n}"


def _known(value: Any) -> bool:
    return value is not None and bool(np.isfinite(float(value)))
