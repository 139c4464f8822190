"""Grants: the action, on what, and to whom."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Action(StrEnum):
    """SUBSCRIBE is granted on channels, PUBLISH on feeds."""

    SUBSCRIBE = "SUBSCRIBE"
    PUBLISH = "PUBLISH"


class GranteeKind(StrEnum):
    """ALL are all permission classes, including future ones."""

    ALL = "ALL"
    CLASS = "CLASS"
    PUBLISHER = "PUBLISHER"


@dataclass(frozen=True, slots=True)
class Grant:
    """`on` names a channel or a feed; `grantee` is empty for ALL. A permission class is stored as written, and may be
    empty: users without a class have that."""

    action: Action
    on: str
    grantee_kind: GranteeKind
    grantee: str = ""

    def __str__(self) -> str:
        """As in a statement, without GRANT or REVOKE.

        >>> str(Grant(Action.SUBSCRIBE, "Alerts", GranteeKind.CLASS, "medics"))
        "SUBSCRIBE on channel Alerts, CLASS 'medics'"
        """
        kind = "channel" if self.action is Action.SUBSCRIBE else "feed"
        who = {GranteeKind.CLASS: f" {self.grantee!r}", GranteeKind.PUBLISHER: f" {self.grantee}"}
        return f"{self.action} on {kind} {self.on}, {self.grantee_kind}{who.get(self.grantee_kind, '')}"
