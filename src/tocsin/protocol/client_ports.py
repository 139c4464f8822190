"""The ports of a subscriber's program to a coordinator and to a broker (pure).

The program's session decides; its driver reaches the coordinator and brokers only through these.
"""

from __future__ import annotations

from typing import Protocol

from tocsin.coordinates.located import Located
from tocsin.protocol.messages import FromSubscriber
from tocsin.protocol.subscribers import Placement


class ClientCoordinatorPort(Protocol):
    """A subscriber's requests to the coordinator.

    Raises httpx.TransportError if nobody answers. Of Tocsin's errors, the `temporary` ones may pass if the call is made
    again a little later; the others will not.
    """

    async def token(self, user: str, password: str, *, register: bool = False) -> str:
        """A token for a user, valid at every broker within some seconds. With `register`, an unknown user is
        registered; a known one needs the right password all the same."""

    async def place(
        self,
        token: str,
        device: str,
        location: tuple[float, float] | None,
        avoid: tuple[str, ...],
        located: Located | None = None,
    ) -> Placement:
        """The broker to go to. For a device with a session, that is the broker that keeps it, unless it is among those
        to `avoid`. If no other broker takes subscribers, the answer is one of those all the same."""

    async def close(self) -> None: ...


class ConnectionPort(Protocol):
    """One connection to a broker. It reports its events in order: that it was opened, or could not be; each message;
    how it ended. After that it reports nothing more."""

    def send(self, message: FromSubscriber) -> None:
        """Returns at once. Messages go out in the order of the calls, or not at all if the connection ends first."""

    def close(self) -> None:
        """Send the messages given so far, then close."""

    async def wait(self, timeout_s: float) -> None:
        """Returns when the connection has ended; after `timeout_s` it is dropped as it is."""
