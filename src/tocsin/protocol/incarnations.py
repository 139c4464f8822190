"""Who has a broker's name, and which of its starts is the one that counts (pure).

A broker's folder holds a random secret, its identity. Coordinator and cluster remember it for each name, with a number
that grows with each start that registers, the incarnation. What an older incarnation says is refused: it would let go
of, or claim, what is not its own any more.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

from tocsin.errors import AlreadyExists, Forbidden, InUse, NotRegistered, Superseded

#: A name is kept for who has it through this much silence, at coordinator and cluster alike: if one of them gave it
#: away sooner, the newcomer would be refused by the other, and both brokers would have to end. Brokers pull and report
#: all the time, so that such a silence is no accident.
NAME_KEPT_S = 15.0
#: The incarnation that calls are made by.
HEADER = "Tocsin-Incarnation"
#: Shows, to who knows brokers by one token, that the name is the caller's own.
IDENTITY_HEADER = "Tocsin-Identity"


@dataclass(frozen=True, slots=True)
class Holder:
    """Of a broker's name. One that gave no identity can be followed by anybody, and its calls need no incarnation."""

    identity: str = ""
    incarnation: int = 0
    #: Which start that is, as the broker calls it: a registration that comes twice, or late, changes nothing.
    start: str = ""


#: Of a name that nobody has.
NOBODY = Holder()


def take_name(
    broker: str,
    known: Holder | None,
    identity: str,
    start: str,
    now_us: int,
    *,
    silent_s: float,
    takes_over: bool = True,
) -> Holder:
    """Who has the name after a registration. `silent_s`: how long nothing was heard of who has it now.

    Raises AlreadyExists if that is another one, and alive; if it fell silent, InUse for who `takes_over` nothing."""
    if known is not None and start and (identity, start) == (known.identity, known.start):
        return known
    if known is not None and known.identity not in ("", identity):
        if silent_s < NAME_KEPT_S:
            raise AlreadyExists(
                f"another broker called {broker} is running: the one with data folder {fingerprint(known.identity)} "
                f"was heard of {silent_s:.1f} s ago, and this one has data folder {fingerprint(identity)}. Give one of "
                f"them another name; if the other is gone for good, come back when it was silent for {NAME_KEPT_S:g} s"
            )
        if not takes_over:
            raise InUse(
                f"the name {broker} is that of the broker with data folder {fingerprint(known.identity)}, which fell "
                f"silent; the one with data folder {fingerprint(identity)} gets it with `takes_over`, once the cluster "
                f"has given it the name"
            )
    # The time, so that numbers grow even if nobody remembers the last one.
    return Holder(identity, max(now_us, known.incarnation + 1 if known else 0), start)


def check_caller(broker: str, known: Holder, incarnation: int) -> None:
    """Raises Superseded for a call by an older incarnation, and NotRegistered for one that is not known here."""
    if incarnation == known.incarnation or (not known.identity and not incarnation):
        return
    if incarnation > known.incarnation:
        raise NotRegistered(f"incarnation {incarnation} of broker {broker} is not known here; register again")
    raise Superseded(
        f"broker {broker} was started again, with data folder {fingerprint(known.identity)}: incarnation {incarnation} "
        f"is refused, {known.incarnation} is the one that counts"
    )


def check_identity(broker: str, known: Holder, identity: str) -> None:
    """Raises Forbidden for a call that does not show the identity of who has the name."""
    if not known.identity:
        raise Forbidden(f"broker {broker} has registered without an identity; only operators speak in its name")
    if not hmac.compare_digest(identity.encode(errors="replace"), known.identity.encode()):
        raise Forbidden(f"the name {broker} is another broker's: show its identity as {IDENTITY_HEADER}")


def fingerprint(identity: str) -> str:
    """What may be shown of an identity.

    >>> fingerprint("secret")
    '2bb80d53'
    """
    return hashlib.sha256(identity.encode()).hexdigest()[:8] if identity else "unknown"
