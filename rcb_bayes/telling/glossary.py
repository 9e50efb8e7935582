"""The words of messages, summaries and pages, and what they mean."""

import re
from importlib.resources import files


def glossary() -> dict[str, str]:
    """What each word means, in the order of the alphabet; the text is that of the documentation's glossary.

    Examples
    --------
    >>> from rcb_bayes.telling.glossary import glossary
    >>> glossary()["saturated"]
    'Of an arm: it has its N samples.'
    """
    text = files("rcb_bayes.telling").joinpath("glossary.md").read_text(encoding="utf-8")
    entries = re.findall(r"^(\S[^\n]*)\n: (.+(?:\n  .+)*)", text, flags=re.MULTILINE)
    return {word: _plain(meaning) for word, meaning in entries}


def _plain(text: str) -> str:
    """Without marks of emphasis and code, on one line."""
    return re.sub(r"[*`]", "", " ".join(text.split()))
