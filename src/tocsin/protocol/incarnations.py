"""Which data folder a broker's name belongs to, and which of the broker's starts counts (pure).

A broker's folder holds a random secret, its identity. Coordinator and cluster remember it for each name, with a number
that grows with each start that registers, the incarnation. They refuse calls of an older incarnation: it would release,
or claim, subscriptions and sessions that are no longer its own.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

from tocsin.errors import AlreadyExists, Forbidden, InUse, NotRegistered, Superseded

#: Coordinator and cluster both keep a name for its holder through this much silence: if one of them gave it away
#: sooner, the other would refuse the new broker, and both brokers would have to end. Brokers pull and report all the
#: time, so such a silence is no accident.
NAME_KEPT_S = 15.0
#: The incarnation of the calling broker.
HEADER = "Tocsin-Incarnation"
#: The identity of the calling broker. All brokers have the same token; this shows that the name is the caller's own.
IDENTITY_HEADER = "Tocsin-Identity"


@dataclass(frozen=True, slots=True)
class Holder:
    """The holder of a broker's name. If it gave no identity, any broker can follow it, and its calls need no
    incarnation."""

    identity: str = ""
    incarnation: int = 0
    #: The broker's own name for this start: a registration that comes twice, or late, changes nothing.
    start: str = ""


#: The holder of a name that nobody has.
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
    """The holder of the name after a registration. `silent_s`: for how long the present holder has been silent.

    If that is another broker: raises AlreadyExists if it is alive, and InUse if it fell silent and `takes_over` is
    false."""
    if known is not None and start and (identity, start) == (known.identity, known.start):
        return known
    if known is not None and known.identity not in ("", identity):
        if silent_s < NAME_KEPT_S:
            raise AlreadyExists(
                f"another broker called {broker} is running: the one with data folder {fingerprint(known.identity)} "
                f"was heard of {silent_s:.1f} s ago, and this one has data folder {fingerprint(identity)}. Give one of "
                f"them another name; if the other is gone for good, try again after it was silent for {NAME_KEPT_S:g} s"
            )
        if not takes_over:
            raise InUse(
                f"the name {broker} is that of the broker with data folder {fingerprint(known.identity)}, which fell "
                f"silent; the one with data folder {fingerprint(identity)} gets it with `takes_over`, once the cluster "
                f"has given it the name"
            )
    # The incarnation is the time, so that it grows even if the last one is forgotten.
    return Holder(identity, max(now_us, known.incarnation + 1 if known else 0), start)


def check_caller(broker: str, known: Holder, incarnation: int) -> None:
    """Raises Superseded for a call by an older incarnation, and NotRegistered for an unknown one."""
    if incarnation == known.incarnation or (not known.identity and not incarnation):
        return
    if incarnation > known.incarnation:
        raise NotRegistered(f"incarnation {incarnation} of broker {broker} is not known here; register again")
    raise Superseded(
        f"broker {broker} was started again, with data folder {fingerprint(known.identity)}: incarnation {incarnation} "
        f"is refused, {known.incarnation} is the one that counts"
    )


def check_identity(broker: str, known: Holder, identity: str) -> None:
    """Raises Forbidden for a call that does not show the identity of the name's holder."""
    if not known.identity:
        raise Forbidden(f"broker {broker} has registered without an identity; only operators speak in its name")
    if not hmac.compare_digest(identity.encode(errors="replace"), known.identity.encode()):
        raise Forbidden(f"the name {broker} is another broker's: show its identity as {IDENTITY_HEADER}")


def fingerprint(identity: str) -> str:
    """A short hash of an identity, which may be shown.

    >>> fingerprint("secret")
    '2bb80d53'
    """
    return hashlib.sha256(identity.encode()).hexdigest()[:8] if identity else "unknown"
