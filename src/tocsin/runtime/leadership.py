"""Whether a process leads, stands by or has to end: decided by what its lease has answered. Pure.

A leader whose lease's keeper does not answer goes on: nobody else can lead unless the keeper says so, and each of its
changes is refused there from then on.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

#: A lease ends this long after it was last renewed. A leader that is busy, or whose machine is, must not lose it.
LEASE_S = 10.0
#: Leaders renew often enough that two attempts may fail. Whoever stands by tries more often: others wait for it.
_RENEW_EVERY_S = LEASE_S / 4
_ATTEMPT_EVERY_S = 0.5


@dataclass(frozen=True, slots=True)
class Term:
    """A process may change a database only while a lease is in its term."""

    lease: str
    number: int


class Role(StrEnum):
    STANDBY = "standby"
    LEADER = "leader"
    #: Another process leads now: whatever this one has in memory may be wrong.
    LOST = "lost"


@dataclass(slots=True)
class Leadership:
    """`term` numbers leaders: it grows whenever another one begins."""

    role: Role = Role.STANDBY
    term: int = 0

    def took(self, term: int | None) -> None:
        """The answer of a standby's attempt: its term, or None while another process leads."""
        assert self.role is Role.STANDBY, self
        if term is not None:
            self.role, self.term = Role.LEADER, term

    def renewed(self, is_mine: bool) -> None:
        """The answer of a leader's attempt."""
        assert self.role is Role.LEADER, self
        if not is_mine:
            self.role = Role.LOST

    @property
    def next_attempt_in_s(self) -> float:
        """How long to wait before the next attempt, also if there was no answer."""
        return _RENEW_EVERY_S if self.role is Role.LEADER else _ATTEMPT_EVERY_S
