"""The page: one HTML file that needs nothing else."""

from importlib.resources import files
from typing import TYPE_CHECKING

from rcb_bayes._version import __version__
from rcb_bayes.plots.style import PALETTE
from rcb_bayes.reporting.answer import top
from rcb_bayes.reporting.costs import cost
from rcb_bayes.reporting.data import chart_data
from rcb_bayes.reporting.evidence import belief, diagnostics, repeat
from rcb_bayes.reporting.explored import slider, who
from rcb_bayes.reporting.followed import follow
from rcb_bayes.reporting.known import known
from rcb_bayes.reporting.markup import Markup, as_script, join, tag
from rcb_bayes.reporting.planned import stages
from rcb_bayes.reporting.protocol import protocol
from rcb_bayes.reporting.vocabulary import vocabulary

if TYPE_CHECKING:
    from rcb_bayes.reporting.result import Report

_LINKS = {
    "who": "Who",
    "follow": "Would they follow",
    "plan": "The plan",
    "known": "What users know",
    "cost": "Cost",
    "belief": "The belief",
    "sure": "How sure",
    "protocol": "Protocol",
    "words": "Words",
    "repeat": "Repeat",
}
# Nothing may be fetched: a label from a belief file that were markup after all would still reach no network.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


def page(report: "Report") -> str:
    """The page of a report."""
    data = chart_data(report)
    name = report.market.prior.name
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="generator", content=f"rcb-bayes {__version__}"),
        tag("title", f"May I explore here? {name}"),
        tag("style", Markup(_colours() + _asset("page.css"))),
    )
    body = tag(
        "body",
        _bar(),
        tag(
            "main",
            top(report),
            tag("noscript", tag("p", "The charts are drawn by a script; their figures are in the tables.")),
            tag("div", slider(report), who(report, data), follow(report, data), class_="turned"),
            stages(report),
            known(report),
            cost(report, data),
            belief(report, data),
            diagnostics(report),
            protocol(report),
            vocabulary(),
            repeat(report),
        ),
        tag("footer", f"rcb-bayes {__version__} · decision support, from simulations of the belief given to it"),
        tag("svg", id="seed-of-charts", width="0", height="0", aria_hidden="true"),
        tag("script", as_script(data), type="application/json", id="data"),
        tag("script", Markup("".join(_asset(part) for part in ("charts.js", "page.js")))),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _bar() -> Markup:
    links = [tag("a", title, href=f"#{name}") for name, title in _LINKS.items()]
    switch = tag("button", "Dark", type="button", id="theme", aria_label="Switch between light and dark")
    return tag("nav", tag("div", *links, class_="links"), switch, class_="no-print", aria_label="Sections")


def _colours() -> str:
    """The arms' colours, those of all figures; the black one is white in the dark."""
    light = "".join(f"--arm-{k}:{colour};" for k, colour in enumerate(PALETTE))
    return f":root{{{light}}}\n" + "".join(f".arm-{k}{{--arm:var(--arm-{k})}}\n" for k in range(len(PALETTE)))


def _asset(name: str) -> str:
    return join(Markup(files("rcb_bayes.reporting").joinpath("assets", name).read_text(encoding="utf-8")))
