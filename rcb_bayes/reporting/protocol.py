"""A paragraph for a protocol or an ethics board: what is done to whom, what it rests on, what it does not cover."""

from typing import TYPE_CHECKING

from rcb_bayes._version import __version__
from rcb_bayes.mechanism.knowledge import as_knowledge
from rcb_bayes.mechanism.notions import as_notion
from rcb_bayes.reporting.answer import explored_rounds
from rcb_bayes.reporting.markup import Markup, tag
from rcb_bayes.reporting.pieces import prose, section
from rcb_bayes.telling.wording import figure, how_often, percent

if TYPE_CHECKING:
    from rcb_bayes.reporting.result import Report

_NO_DESIGN = "No design was found in which users would follow"


def paragraph(report: "Report") -> str:
    """The paragraph, in plain text."""
    plan, audit, arms = report.plan, report.audit, report.market.arms
    rewards = report.market.describe().splitlines()[-1].split("  ")[-1].strip()
    sentences = [
        f"We compare {len(arms)} arms ({_names(arms)}) for {report.horizon:,} users in sequence.",
        "Each user receives a recommendation and is free to take another arm.",
        "The rule by which recommendations are made is published beforehand.",
    ]
    if not plan.feasible:
        untold = report.verdict == "inconclusive"
        what = "Whether there is a design that users would follow is not known" if untold else _NO_DESIGN
        return " ".join([*sentences, f"{what}: {plan.reason}"])
    length = figure(plan.expected_cold_start, plan.expected_cold_start_mcse)
    short = plan.expected_cold_start > report.horizon
    sentences += [
        f"In a first stage {plan.agenda.words} outcomes of each arm are {'to be ' if short else ''}collected.",
        f"It is expected to last {length} users"
        + (", more than there are: for most arms fewer outcomes will be at hand." if short else "."),
        _who(report),
        "Afterwards a user is recommended the arm that the data favour for her."
        if _only_the_best(report)
        else "Afterwards a user is mostly recommended the arm that the data favour for her. The more another arm is "
        "expected to cost her, the more rarely it is recommended.",
        f"Design criterion: {as_notion(plan.notion).meaning}, with epsilon = {plan.epsilon:g} units of the outcome. "
        f"Users are assumed to know {as_knowledge(plan.knows).words}.",
        f"Expectations are those of the users' prior belief '{report.market.prior.name}'; outcomes are modelled as "
        f"{rewards}.",
    ]
    if audit is None:
        sentences.append("The design was not audited.")
    else:
        sentences.append(
            f"In an audit by simulation ({audit.n_worlds:,} draws from that belief, simultaneous "
            f"{100 * (1 - audit.level):g} % bounds) the verdict on the criterion is: {audit.verdict}."
        )
    sentences += [
        "The verdict holds for users who share the stated belief, know the rule and reason by it.",
        "It does not establish that people do so.",
        "It replaces neither consent nor the judgement of those responsible.",
        f"Planned with rcb_bayes {__version__} (RCB; Li, Cheng and Dai, ICML 2026, arXiv 2406.04374), "
        f"seed {report.seed}.",
    ]
    return " ".join(sentences)


def _only_the_best(report: "Report") -> bool:
    """Whether exploitation recommends nothing but the best arm, as with 0/1 rewards: guards close all else."""
    guards = report.plan.guards
    return report.guard and bool(guards) and all(rule.kept == 0 for rule in guards)


def _names(arms: tuple[str, ...]) -> str:
    shown = ", ".join(arms[:8])
    return shown if len(arms) <= 8 else f"{shown} and {len(arms) - 8} more"


def _who(report: "Report") -> str:
    plan = report.plan
    if not plan.personalised:
        rate = figure(plan.exploration_rate, plan.exploration_rate_mcse)
        return f"Meanwhile a user is recommended an arm that still needs outcomes with probability {rate}."
    everybody = plan.share_explored > 1 - 1e-9
    whom = f"It is above 0 for {percent(plan.share_explored)} of users"
    found = explored_rounds(report)
    often = "" if found is None else f" This happens {how_often(*found[:2])} on average, once an arm has its outcomes."
    return (
        "Meanwhile each user has a probability of her own to be recommended an arm that still needs outcomes."
        f"{often} {'No user is left out' if everybody else whom}."
    )


def protocol(report: "Report") -> Markup:
    """The section with the paragraph and a button that copies it."""
    return section(
        "protocol",
        "For a protocol or an ethics board",
        prose("A paragraph to begin with. Read it against what you will do, and add consent, stopping and oversight."),
        tag("blockquote", tag("p", paragraph(report), id="protocol-text"), class_="quote"),
        tag("button", "Copy the paragraph", type="button", data_copies="protocol-text", class_="no-print"),
    )
