"""Results as notebooks show them: a heading with the verdict, and the words of the summary below."""

import html

_COLOURS = {
    "pass": "#0b7a3e",
    "feasible": "#0b7a3e",
    "fail": "#c0392b",
    "not feasible": "#c0392b",
    "inconclusive": "#b7791f",
}


def as_html(name: str, text: str, *, verdict: str = "") -> str:
    """A heading of the name and the verdict, then the text as it stands.

    Examples
    --------
    >>> from rcb_bayes.telling.html import as_html
    >>> as_html("Plan", "q < 1", verdict="feasible")[:34]
    '<div><strong>Plan</strong>: <span '
    """
    shown = ""
    if verdict:
        colour = _COLOURS.get(verdict, "inherit")
        shown = f': <span style="color:{colour};font-weight:600">{html.escape(verdict)}</span>'
    return (
        f"<div><strong>{html.escape(name)}</strong>{shown}"
        f'<pre style="margin:.3em 0;white-space:pre-wrap">{html.escape(text)}</pre></div>'
    )
