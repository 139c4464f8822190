"""The options of a subscriber's session (pure)."""

from __future__ import annotations

from dataclasses import dataclass, field

from tocsin.client.core.links import PING_AFTER_S
from tocsin.model.backoff import Backoff
from tocsin.model.location import Location


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """`brokers` are known from the start; `has_coordinator` and `can_renew` say what the shell can do.
    `ping_after_s` is infinite where the loss of a connection is always noticed."""

    device: str = ""
    token: str = field(default="", repr=False)
    brokers: tuple[str, ...] = ()
    has_coordinator: bool = False
    can_renew: bool = False
    location: Location | None = None
    backoff: Backoff = field(default_factory=Backoff)
    ping_after_s: float = PING_AFTER_S
