"""Plans with other figures than they were made with."""

from dataclasses import fields, replace
from typing import Any

from rcb_bayes import Plan


def revised(plan: Plan, **changes: Any) -> Plan:
    """The plan with figures changed, whatever parts they belong to."""
    parts = {}
    for item in fields(plan):
        part = getattr(plan, item.name)
        if part is None:  # a plan for users of one type
            continue
        inner = {name: changes.pop(name) for name in [one.name for one in fields(part)] if name in changes}
        parts[item.name] = replace(part, **inner)
    assert not changes, f"no part has {', '.join(changes)}"
    return replace(plan, **parts)
