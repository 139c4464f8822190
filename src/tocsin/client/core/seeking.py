"""Finds a broker for a session: the token, the coordinator's placement, known brokers, and pauses between tries (pure).

It decides about a session without a link. `open_link` opens one; `fail` ends the session for good.
"""

from __future__ import annotations

from collections.abc import Callable

from tocsin.client.core import events as ev
from tocsin.client.core.failures import TokenRefused
from tocsin.client.core.options import SessionOptions
from tocsin.coordinates.located import Located
from tocsin.errors import TocsinError, Unauthorised
from tocsin.model.backoff import Backoff

#: A refused token that is younger than this has not expired: another would be refused too.
FRESH_TOKEN_S = 10.0
#: Brokers may refuse a fresh token for this long: they hear of a new key some seconds after the coordinator signs with
#: it, or are cut off from the coordinator and avoided soon.
BROKERS_LEARN_WITHIN_S = 30.0
#: How many brokers' addresses are remembered for when the coordinator is away.
MAX_KNOWN = 16


class KnownBrokers:
    """The brokers that a client knows, those of them that failed, and the pause before the next try."""

    __slots__ = ("_attempts", "_backoff", "_chance", "_failed", "_known")

    def __init__(self, urls: tuple[str, ...], backoff: Backoff, chance: Callable[[], float]) -> None:
        #: Addresses, latest first, and names as far as they are known.
        self._known: tuple[tuple[str, str], ...] = tuple((url, "") for url in dict.fromkeys(urls))
        #: Names of brokers that failed since the last success.
        self._failed: tuple[str, ...] = ()
        self._backoff = backoff
        self._chance = chance
        self._attempts = 0

    @property
    def failed(self) -> tuple[str, ...]:
        return self._failed

    def remember(self, url: str, broker: str) -> None:
        others = tuple(one for one in self._known if one[0] != url)
        self._known = ((url, broker), *others[: MAX_KNOWN - 1])

    def next_known(self) -> tuple[str, str] | None:
        """Address and name of a broker to try without asking the coordinator: each in turn, the latest first."""
        return self._known[self._attempts % len(self._known)] if self._known else None

    def note_failure(self, broker: str) -> None:
        if broker and broker not in self._failed:
            self._failed = (*self._failed, broker)

    def forgive(self) -> None:
        """Forget failures: a broker could be reached, or no other is left."""
        self._failed = ()

    def note_steady(self) -> None:
        """A connection lasted: the next pause is short again."""
        self._attempts = 0

    def pause_s(self) -> float:
        """How long to wait before trying again, longer each time."""
        self._attempts += 1
        return self._backoff.delay_s(self._attempts - 1, self._chance)


class Seeker:
    __slots__ = (
        "_fail",
        "_open_link",
        "_options",
        "_out",
        "_refused_since_s",
        "_renewed_s",
        "device",
        "is_asking",
        "known_brokers",
        "located",
        "location",
        "retry_s",
        "token",
        "trouble",
    )

    def __init__(
        self,
        options: SessionOptions,
        chance: Callable[[], float],
        out: list[ev.Instruction],
        open_link: Callable[[str, str], None],
        fail: Callable[[TocsinError], None],
    ) -> None:
        self._options = options
        self._out = out
        self._open_link = open_link
        self._fail = fail
        self.token = options.token
        self.device = options.device
        self.location = options.location
        self.located: Located | None = None
        self.known_brokers = KnownBrokers(options.brokers, options.backoff, chance)
        #: The latest reason for not being connected, for people.
        self.trouble = ""
        #: When to try again; None if nothing is to be tried.
        self.retry_s: float | None = None
        #: Whether a request to the coordinator is unanswered.
        self.is_asking = False
        self._renewed_s = -FRESH_TOKEN_S
        #: Since when brokers have refused our tokens.
        self._refused_since_s: float | None = None

    def end(self) -> None:
        """Open no link any more. The session that it knows can be freed at once, without a garbage collection."""
        self._open_link = self._fail = _nothing

    def seek(self, now_s: float) -> None:
        if self.is_asking:
            return
        if not self.token:
            self._need_token("no token was given", now_s)
        elif not self.ask_for_placement(self.known_brokers.failed):
            self._open_known(now_s)

    def ask_for_placement(self, avoid: tuple[str, ...] = ()) -> bool:
        """Ask the coordinator for a broker; False if there is none to ask, or it has not answered yet."""
        if not self._options.has_coordinator or self.is_asking:
            return False
        self.is_asking = True
        self._out.append(ev.RequestPlacement(self.token, self.device, avoid, self.location, self.located))
        return True

    def connected(self, url: str, broker: str) -> None:
        self.known_brokers.remember(url, broker)
        self.known_brokers.forgive()
        self._refused_since_s = None
        self.trouble = ""

    def pause(self, reason: str, now_s: float) -> None:
        self.trouble = reason
        self.retry_s = now_s + self.known_brokers.pause_s()

    def not_placed(self, event: ev.PlacementFailed, now_s: float) -> None:
        self.trouble = f"the coordinator named no broker: {event.reason}"
        if event.error is None:
            self._open_known(now_s)
        elif event.error.code == Unauthorised.code:
            self._need_token(event.reason, now_s)
        elif event.temporary:
            # A broker that failed before is better than none.
            self.known_brokers.forgive()
            self.pause(self.trouble, now_s)
        else:
            self._fail(event.error)

    def token_given(self, token: str, now_s: float) -> None:
        self.token, self._renewed_s = token, now_s

    def token_failed(self, event: ev.TokenFailed, now_s: float) -> None:
        if event.error is not None and not event.temporary:
            self._fail(event.error)
        else:
            self.pause(f"the coordinator gave no token: {event.reason}", now_s)

    def token_refused(self, broker: str, reason: str, now_s: float) -> None:
        """A broker refused our token. If the coordinator has just issued it, the token counts as good for a while."""
        if self._refused_since_s is None:
            self._refused_since_s = now_s
        if self._has_fresh_token(now_s) and now_s - self._refused_since_s < BROKERS_LEARN_WITHIN_S:
            self.known_brokers.note_failure(broker)
            self.pause(reason, now_s)
        else:
            self._need_token(reason, now_s)

    def _open_known(self, now_s: float) -> None:
        known = self.known_brokers.next_known()
        if known is None:
            self.pause(self.trouble, now_s)
        else:
            self._open_link(*known)

    def _has_fresh_token(self, now_s: float) -> bool:
        return bool(self.token) and now_s - self._renewed_s < FRESH_TOKEN_S

    def _need_token(self, reason: str, now_s: float) -> None:
        """Our token is not good; get another one."""
        if not self._options.can_renew:
            advice = "give user and password, so that the client can get new tokens, or connect again with a new token"
            self._fail(TokenRefused(f"{reason}; {advice}"))
        elif self._has_fresh_token(now_s):
            self._fail(TokenRefused(f"a new token was refused too: {reason}"))
        else:
            self.token = ""
            self.is_asking = True
            self._out.append(ev.RenewToken())


def _nothing(*_arguments: object) -> None:
    pass
