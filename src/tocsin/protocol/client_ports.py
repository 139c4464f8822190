"""What a coordinator and a broker are to a subscriber's program (pure).

The program's session decides, and its driver knows the others by these alone.
"""

from __future__ import annotations

from typing import Protocol

from tocsin.protocol.messages import FromSubscriber
from tocsin.protocol.subscribers import Placement


class ClientCoordinatorPort(Protocol):
    """What a subscriber asks the coordinator for.

    Raises httpx.TransportError if nobody answers. Of Tocsin's errors, those that are `temporary` may be otherwise a
    little later; the others will not.
    """

    async def token(self, user: str, password: str, *, register: bool = False) -> str:
        """A token for a user, good at every broker within some seconds. With `register`, a user who is not known yet
        is registered; one who is known needs the right password all the same."""
        ...

    async def place(
        self, token: str, device: str, location: tuple[float, float] | None, avoid: tuple[str, ...]
    ) -> Placement:
        """The broker to go to. For a device that something is kept for, that is the one that keeps it, unless that is
        among those to `avoid`. If nobody else takes subscribers, one of those is named all the same."""
        ...

    async def close(self) -> None: ...


class ConnectionPort(Protocol):
    """One connection to a broker. What happens to it is told in order: that it was opened, or could not be; each
    message; how it ended. After that nothing more is told of it."""

    def send(self, message: FromSubscriber) -> None:
        """Returns at once; messages go out in the order in which they were given, or not at all if it ends first."""
        ...

    def close(self) -> None:
        """Send what was given, then close."""
        ...

    async def wait(self, timeout_s: float) -> None:
        """Returns when it is gone; after `timeout_s` it is dropped as it is."""
        ...
