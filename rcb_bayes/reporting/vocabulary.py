"""The words of a page, and what they mean."""

from rcb_bayes.reporting.markup import Markup, tag
from rcb_bayes.reporting.pieces import parameters, prose, section
from rcb_bayes.telling.glossary import glossary


def vocabulary() -> Markup:
    """The glossary, folded in."""
    return section(
        "words",
        "Words",
        prose("Saturated, promoted, guard, margin: what they mean here. `rcb words guard` tells it in a terminal."),
        tag("details", tag("summary", "The glossary"), parameters(list(glossary().items()))),
    )
