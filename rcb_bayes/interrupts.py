"""Ctrl-C: what counts as one, whatever a library below made of it."""


def is_interrupt(error: BaseException | None) -> bool:
    """Whether an error is a Ctrl-C, or came of one.

    Compiled code that is interrupted half-way ends in errors of its own: a SystemError for a result that came with an
    exception set, a Rust panic. The KeyboardInterrupt is then behind it, as its cause or its context.

    Examples
    --------
    >>> from rcb_bayes.interrupts import is_interrupt
    >>> is_interrupt(KeyboardInterrupt()), is_interrupt(ValueError("no number"))
    (True, False)
    """
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if one is None or id(one) in seen:
            continue
        if isinstance(one, KeyboardInterrupt):
            return True
        seen.add(id(one))
        waiting += [one.__cause__, one.__context__]
    return False
