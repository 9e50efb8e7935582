"""The page of a validation: one HTML file that needs nothing else."""

from typing import TYPE_CHECKING

from rcb_bayes._version import __version__
from rcb_bayes.reporting.markup import Markup, join, table, tag
from rcb_bayes.telling.wording import brief, figure, percent
from rcb_bayes.validation.calibrating import BIAS
from rcb_bayes.validation.result import LEVEL

if TYPE_CHECKING:
    from rcb_bayes.validation.result import Finding, Validation

_STYLE = """
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem}
th,td{text-align:left;padding:.2rem .7rem;border-bottom:1px solid #8884}td.n,th.n{text-align:right}
.pass{color:#08703a}.fail{color:#b3261e;font-weight:600}
@media(prefers-color-scheme:dark){.pass{color:#6fd39a}.fail{color:#ff8a80}}
svg{max-width:100%;height:auto}svg text{font-size:13px;fill:currentColor}
"""
_WIDTH, _ROW, _LEFT, _REACH = 760, 26, 300, 0.16  # of the chart; sd at its ends


def page(found: "Validation") -> str:
    """The page of a validation."""
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content="default-src 'none'; style-src 'unsafe-inline'"),
        tag("title", f"Validation of rcb-bayes {__version__}"),
        tag("style", Markup(_STYLE)),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, tag('body', Markup(body(found))), lang='en')}\n"


def body(found: "Validation") -> str:
    """What the page says, also in a notebook."""
    return join(
        tag("h1", "Validation: ", _mark(found.verdict == "pass")),
        tag("p", _answer(found)),
        tag("h2", "Parts"),
        table(["part", "verdict", "comparisons that hold", "planted errors caught", "seconds"], _parts(found)),
        tag("h2", "Bias of the engines, in posterior standard deviations"),
        tag("p", f"Bars are four Monte Carlo errors to each side. The dashed line is the planted bias of {BIAS:g} sd."),
        _chart([one for one in found.findings if one.test == "bias"]),
        tag("h2", "Every comparison"),
        table(["part", "on", "comparison", "off by", "allowed", "holds"], _rows(found), numbers=3),
        tag("h2", "What was validated"),
        table(["package", "version"], [[name, value] for name, value in found.versions.items()], numbers=2),
        tag("p", f"Seed {found.seed}, {'quick' if found.quick else 'whole'} validation. {_METHOD}"),
    )


_METHOD = (
    "Truths are drawn from a belief and data from the truths; the engine sees the data. Where its posteriors are "
    "right, the truth minus the mean is zero on average, its square over the variance is one, and the rank of the "
    "truth among draws is uniform. Engines that sample are allowed 0.01 sd of bias and 3 % of variance. Twins are "
    "posterior means by closed form or by sums over a grid. Gaps, rates and audits are compared with the closed forms "
    "of two arms."
)


def _answer(found: "Validation") -> str:
    chance = percent(1 - LEVEL)
    if found.verdict == "pass":
        return (
            f"All {len(found.findings)} comparisons hold, and every planted error is caught. A sound installation "
            f"passes with a probability of {chance} or more."
        )
    return (
        f"{len(found.failures)} of {len(found.findings)} comparisons do not hold, {len(found.missed)} planted errors "
        f"are not caught. A sound installation passes with a probability of {chance} or more: do not rely on this one "
        "before it is explained."
    )


def _mark(good: bool) -> Markup:
    return tag("span", "pass" if good else "fail", class_="pass" if good else "fail")


def _parts(found: "Validation") -> list[list[object]]:
    failed = {id(one) for one in found.failures}
    rows: list[list[object]] = []
    for part in found.parts:
        own = [one for one in found.findings if one.part == part]
        errors = [error for one in own for error in one.planted]
        caught, bad = sum(found.catches(error) for error in errors), sum(id(one) in failed for one in own)
        good = not bad and caught == len(errors)
        seconds = f"{found.seconds.get(part, 0.0):.1f}"
        rows.append([part, _mark(good), f"{len(own) - bad} of {len(own)}", f"{caught} of {len(errors)}", seconds])
    return rows


def _rows(found: "Validation") -> list[list[object]]:
    failed = {id(one) for one in found.failures}
    return [
        [
            one.part,
            one.case,
            one.test,
            figure(one.estimate, one.mcse),
            f"p ≥ {brief(found.threshold, 2)}: {brief(one.p_value, 2)}"
            if one.p_value is not None
            else f"at most {brief(one.limit or 0.0)}",
            _mark(id(one) not in failed),
        ]
        for one in found.findings
    ]


def _chart(findings: "list[Finding]") -> Markup:
    height = _ROW * (len(findings) + 1)

    def place(value: float) -> float:
        inside = min(max(value, -_REACH), _REACH)
        return round(_LEFT + (inside + _REACH) / (2 * _REACH) * (_WIDTH - _LEFT - 10), 1)

    marks = [_line(place(0.0), 0, place(0.0), height - _ROW), _line(place(BIAS), 0, place(BIAS), height - _ROW, "4 4")]
    for k, one in enumerate(findings):
        y = _ROW * k + _ROW / 2
        marks += [
            tag("text", f"{one.part}: {one.case}", x=0, y=y + 4),
            _line(place(one.estimate - 4 * one.mcse), y, place(one.estimate + 4 * one.mcse), y),
            tag("circle", cx=place(one.estimate), cy=y, r=4, fill="currentColor"),
        ]
    ends = [(0.0, "0"), (BIAS, f"{BIAS:g}"), (-BIAS, f"-{BIAS:g}")]
    marks += [tag("text", words, x=place(value), y=height - 8, text_anchor="middle") for value, words in ends]
    return tag("svg", *marks, viewBox=f"0 0 {_WIDTH} {height}", role="img", aria_label="Bias of each engine")


def _line(x1: float, y1: float, x2: float, y2: float, dashes: str | None = None) -> Markup:
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke="currentColor", stroke_dasharray=dashes)
