"""A session's life at a broker: a transition table (pure).

1. Everything that decides whether a session may be served, claimed or reported is in this file. Nobody else sets a
   state: a session learns facts.
2. A session is in one state of each of three regions: whether its subscriber is here, whether the coordinator has
   confirmed our copy of it, and which broker owns it.
3. A fact concerns the regions that have an entry for it, in any state. Each of these has to have an entry for the state
   that it is in. If it has none, the fact is a mistake of ours, and InvalidTransition lists the facts that led to it.
4. A session that has ended learns nothing more.

Where restoring, claiming and serving depend on one another:

* Nobody is welcomed before the cluster has answered for all their kept subscriptions.
* A session is claimed once everything in it is held here, and only if it is confirmed: a later report of another broker
  must not be overwritten. Until then its former owner goes on holding everything.
* A claim makes it unconfirmed: the former owner may have reported more while the claim was on its way. A session that
  is owned and unconfirmed is not reported.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import NamedTuple


class Presence(StrEnum):
    """Whether the subscriber is here, and what can be sent to it."""

    AWAY = "away"
    #: Connected; its session is being restored.
    ARRIVING = "arriving"
    #: The same, and its connection is congested.
    STALLED = "stalled"
    #: Welcomed: missed results can be sent.
    READY = "ready"
    #: A part of the missed results is on its way; the next part follows when that one is written.
    SENDING = "sending"
    #: Too much waits to be sent: nothing more is sent until it has read.
    CONGESTED = "congested"


class Knowledge(StrEnum):
    """Whether our copy of the session is complete."""

    CONFIRMED = "confirmed"
    #: It was, before its subscriber came with positions and was let in at once. The subscriber may have been elsewhere
    #: since, and may not have asked for everything yet: for a subscription without a position, the coordinator is asked
    #: first.
    ASSUMED = "assumed"
    #: Another broker may have carried it on, or reported more of it: the coordinator is asked with each report.
    UNCONFIRMED = "unconfirmed"
    #: The same, and its subscriber is here. Subscriptions that we keep or that it brings are served; others that it
    #: asks for may be kept elsewhere, and must not begin anew.
    DOUBTFUL = "doubtful"


class Ownership(StrEnum):
    """Whether this broker owns the session."""

    UNCLAIMED = "unclaimed"
    #: The claim goes with the next report, or is on its way.
    CLAIMING = "claiming"
    OWNED = "owned"
    #: Nothing is kept here any more: it is over, another broker's, or begun anew from the store.
    ENDED = "ended"


class SessionFact(StrEnum):
    """The facts that a session can learn."""

    CONNECTED = "connected"
    #: Its subscriber came with positions, and was let in without the coordinator's answer.
    TRUSTED = "trusted"
    #: Its subscriber came without positions, or asks for something without, and the coordinator has not answered.
    DOUBTED = "doubted"
    WELCOMED = "welcomed"
    #: A part of the missed results was sent, with a request for confirmation.
    PART_SENT = "part sent"
    FILLED = "filled"
    FLUSHED = "flushed"
    DISCONNECTED = "disconnected"
    #: The coordinator's copy of it was taken in.
    CONFIRMED = "confirmed"
    #: All its known subscriptions are held here.
    COMPLETED = "completed"
    #: The coordinator has made us its owner.
    CLAIMED = "claimed"
    ENDED = "ended"


State = Presence | Knowledge | Ownership

TRANSITIONS: dict[tuple[State, SessionFact], State] = {
    (Presence.AWAY, SessionFact.CONNECTED): Presence.ARRIVING,
    (Presence.ARRIVING, SessionFact.WELCOMED): Presence.READY,
    (Presence.ARRIVING, SessionFact.FILLED): Presence.STALLED,
    (Presence.ARRIVING, SessionFact.FLUSHED): Presence.ARRIVING,
    (Presence.ARRIVING, SessionFact.DISCONNECTED): Presence.AWAY,
    (Presence.STALLED, SessionFact.WELCOMED): Presence.CONGESTED,
    (Presence.STALLED, SessionFact.FLUSHED): Presence.ARRIVING,
    (Presence.STALLED, SessionFact.DISCONNECTED): Presence.AWAY,
    (Presence.READY, SessionFact.PART_SENT): Presence.SENDING,
    (Presence.READY, SessionFact.FILLED): Presence.CONGESTED,
    (Presence.READY, SessionFact.FLUSHED): Presence.READY,
    (Presence.READY, SessionFact.DISCONNECTED): Presence.AWAY,
    (Presence.SENDING, SessionFact.FILLED): Presence.CONGESTED,
    (Presence.SENDING, SessionFact.FLUSHED): Presence.READY,
    (Presence.SENDING, SessionFact.DISCONNECTED): Presence.AWAY,
    (Presence.CONGESTED, SessionFact.FLUSHED): Presence.READY,
    (Presence.CONGESTED, SessionFact.DISCONNECTED): Presence.AWAY,
    (Knowledge.CONFIRMED, SessionFact.TRUSTED): Knowledge.ASSUMED,
    (Knowledge.CONFIRMED, SessionFact.DOUBTED): Knowledge.DOUBTFUL,
    (Knowledge.CONFIRMED, SessionFact.CLAIMED): Knowledge.UNCONFIRMED,
    (Knowledge.CONFIRMED, SessionFact.DISCONNECTED): Knowledge.CONFIRMED,
    (Knowledge.ASSUMED, SessionFact.DOUBTED): Knowledge.DOUBTFUL,
    (Knowledge.ASSUMED, SessionFact.CLAIMED): Knowledge.UNCONFIRMED,
    (Knowledge.ASSUMED, SessionFact.DISCONNECTED): Knowledge.CONFIRMED,
    (Knowledge.UNCONFIRMED, SessionFact.TRUSTED): Knowledge.DOUBTFUL,
    (Knowledge.UNCONFIRMED, SessionFact.CONFIRMED): Knowledge.CONFIRMED,
    (Knowledge.UNCONFIRMED, SessionFact.DOUBTED): Knowledge.DOUBTFUL,
    (Knowledge.UNCONFIRMED, SessionFact.CLAIMED): Knowledge.UNCONFIRMED,
    (Knowledge.UNCONFIRMED, SessionFact.DISCONNECTED): Knowledge.UNCONFIRMED,
    (Knowledge.DOUBTFUL, SessionFact.CONFIRMED): Knowledge.CONFIRMED,
    (Knowledge.DOUBTFUL, SessionFact.CLAIMED): Knowledge.DOUBTFUL,
    (Knowledge.DOUBTFUL, SessionFact.DISCONNECTED): Knowledge.UNCONFIRMED,
    (Ownership.UNCLAIMED, SessionFact.COMPLETED): Ownership.CLAIMING,
    # A claim may be answered after the session that it was for has begun anew.
    (Ownership.UNCLAIMED, SessionFact.CLAIMED): Ownership.OWNED,
    (Ownership.UNCLAIMED, SessionFact.ENDED): Ownership.ENDED,
    (Ownership.CLAIMING, SessionFact.COMPLETED): Ownership.CLAIMING,
    (Ownership.CLAIMING, SessionFact.CLAIMED): Ownership.OWNED,
    (Ownership.CLAIMING, SessionFact.ENDED): Ownership.ENDED,
    (Ownership.OWNED, SessionFact.CLAIMED): Ownership.OWNED,
    (Ownership.OWNED, SessionFact.ENDED): Ownership.ENDED,
}


class SessionState(NamedTuple):
    """One state of each region."""

    presence: Presence
    knowledge: Knowledge
    ownership: Ownership

    @property
    def is_welcomed(self) -> bool:
        return self.presence in _WELCOMED

    @property
    def is_congested(self) -> bool:
        return self.presence in _CONGESTED

    @property
    def is_ready(self) -> bool:
        return self.presence is _READY

    @property
    def is_doubtful(self) -> bool:
        return self.knowledge is _DOUBTFUL

    @property
    def is_assumed(self) -> bool:
        return self.knowledge is _ASSUMED

    @property
    def is_confirmed(self) -> bool:
        return self.knowledge in _CONFIRMED

    @property
    def is_owned(self) -> bool:
        return self.ownership is _OWNED

    def __str__(self) -> str:
        return ", ".join(self)


# A name takes a thirtieth of the time that going through the enumeration takes, and brokers ask for each message.
_READY, _DOUBTFUL, _ASSUMED, _OWNED = Presence.READY, Knowledge.DOUBTFUL, Knowledge.ASSUMED, Ownership.OWNED
_CONFIRMED = frozenset({Knowledge.CONFIRMED, Knowledge.ASSUMED})
_WELCOMED = frozenset({Presence.READY, Presence.SENDING, Presence.CONGESTED})
_CONGESTED = frozenset({Presence.STALLED, Presence.CONGESTED})
_CONCERNED = {fact: tuple({type(state) for state, one in TRANSITIONS if one is fact}) for fact in SessionFact}


def first_state(*, is_owned: bool, is_confirmed: bool) -> SessionState:
    """The state in which a session begins, from the store or from the coordinator's copy."""
    return SessionState(
        Presence.AWAY,
        Knowledge.CONFIRMED if is_confirmed else Knowledge.UNCONFIRMED,
        Ownership.OWNED if is_owned else Ownership.UNCLAIMED,
    )


@cache
def next_state(state: SessionState, fact: SessionFact) -> SessionState | None:
    """The state after `fact`; None if `fact` is not possible in `state`.

    >>> state = first_state(is_owned=False, is_confirmed=True)
    >>> str(next_state(state, SessionFact.CLAIMED))
    'away, unconfirmed, owned'
    >>> next_state(state, SessionFact.WELCOMED)
    """
    if state.ownership is Ownership.ENDED:
        return None
    found = [TRANSITIONS.get((one, fact)) if type(one) in _CONCERNED[fact] else one for one in state]
    return None if None in found else SessionState(*found)  # type: ignore[arg-type] # each stays in its region
