"""What tells one run from another: names of markets, plans, policies and oracles, the same in any process."""

import hashlib
from dataclasses import fields, is_dataclass
from typing import Any

from rcb_bayes.files.envelope import digest_of
from rcb_bayes.market import Market
from rcb_bayes.market.fingerprint import of_belief, of_noise
from rcb_bayes.planning.plan import Plan
from rcb_bayes.running.oracle import PosteriorOracle


def name_of_market(market: Market) -> dict[str, str]:
    """The market's fingerprint, with nature's."""
    return market.fingerprint() | {"nature": of_belief(market.nature)}


def name_of(part: Any) -> str | None:
    """A plan by its digest, a recommender by its plan's, an oracle by its settings, anything else by its code."""
    if part is None:
        return None
    if isinstance(part, Plan):
        return digest_of(part.to_dict())
    if isinstance(getattr(part, "plan", None), Plan):
        return f"{type(part).__name__} {digest_of(part.plan.to_dict())}"
    if isinstance(part, PosteriorOracle):
        own = (of_belief(part.prior), of_noise(part.noise), part.engine, part.read, part.seed, part.factor)
        return f"PosteriorOracle {own}"
    if is_dataclass(part) and not isinstance(part, type):
        return f"{type(part).__name__} " + ", ".join(f"{f.name}={_shown(getattr(part, f.name))}" for f in fields(part))
    import cloudpickle

    name = getattr(part, "__qualname__", type(part).__name__)
    return f"{name} {hashlib.blake2b(cloudpickle.dumps(part), digest_size=8).hexdigest()}"


def _shown(value: Any) -> str:
    """A setting; an oracle within an oracle by its own name."""
    return f"({name_of(value)})" if is_dataclass(value) and not isinstance(value, type) else repr(value)
