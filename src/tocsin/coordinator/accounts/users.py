"""Registered users, their tokens, and which tokens are void."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

import sqlalchemy as sa

from tocsin.coordinator.accounts.keys import Keys
from tocsin.coordinator.accounts.login_attempts import FailedAttempts, source_of
from tocsin.coordinator.accounts.passwords import NOBODYS_HASH, hash_password, is_password
from tocsin.coordinator.metrics import Metrics
from tocsin.coordinator.store.registry_store import Revocation, Store, UserRecord
from tocsin.errors import InvalidValue, NotFound, TocsinError, Unauthorised, Unavailable
from tocsin.model.people import fingerprint, is_fingerprint
from tocsin.runtime.clock import Clock
from tocsin.runtime.tokens import Identity, TokenChecker

_MIN_PASSWORD_CHARS = 8
#: Hashing takes 16 MB and a fifth of a second each. More than this at once wait; more than `_MAX_WAITING` are refused.
_HASHING_AT_ONCE = 2
_MAX_WAITING = 256
#: So that one address can't fill the queue. Behind a proxy that hides addresses, all users share this limit.
_MAX_WAITING_OF_SOURCE = 128
#: Locks that logins are spread over, by user and source; two pairs seldom share one.
_LINES = 256
_RETRY_AFTER_S = 2.0

_Given = ParamSpec("_Given")
_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class Issued:
    user: str
    token: str
    expires_at_us: int


class Users:
    """Runs on the event loop; hashes passwords and asks the database in threads."""

    def __init__(self, store: Store, signer: Keys, clock: Clock, metrics: Metrics, token_lifetime_s: float) -> None:
        self._store = store
        self._signer = signer
        self._clock = clock
        self._metrics = metrics
        self._lifetime_us = round(token_lifetime_s * 1e6)
        self._attempts = FailedAttempts()
        self._hashing = asyncio.Semaphore(_HASHING_AT_ONCE)
        self._in_line = [asyncio.Lock() for _ in range(_LINES)]
        self._waiting: Counter[str] = Counter()
        self._checker = TokenChecker(*signer.public_keys())
        self._revocations, self.revocations_version = store.revocations(clock.now_us(), self._lifetime_us)
        for one in self._revocations.values():
            self._checker.revoke(one.user, one.void_before_us)

    def check(self, token: str) -> Identity:
        """The identity that the token proves; raises Unauthorised."""
        self._checker.trust(self._signer.public_keys())
        return self._checker.check(token, self._clock.now_us())

    def revoked_since(self, version: int) -> dict[str, int]:
        """The revocations that a broker at `version` lacks: user to µs since 1970. A broker whose version is too high
        has it from another coordinator, and gets all of them."""
        if version > self.revocations_version:
            version = 0
        return {one.user: one.void_before_us for one in self._revocations.values() if one.version > version}

    async def register(self, name: str, password: str | None, permission: str, address: str = "") -> Issued:
        """A user without a password gets tokens from operators only."""
        hashed = ""
        if password is not None:
            if len(password) < _MIN_PASSWORD_CHARS:
                raise InvalidValue(f"the password has fewer than {_MIN_PASSWORD_CHARS} characters")
            async with self._turn(source_of(address)), self._hashing:
                hashed = await asyncio.to_thread(hash_password, password)
        now_us = self._clock.now_us()
        await _ask(self._store.add_user, UserRecord(name, hashed, permission, now_us))
        return self._issue(name, permission)

    async def log_in(self, name: str, password: str, address: str = "") -> Issued:
        """A token for a user who knows the password; `address` is where the attempt comes from.
        The answer is the same for an unknown user and for a wrong password."""
        try:
            source = source_of(address)
            # One attempt per user and source at a time: otherwise many at once would pass before the first has failed.
            async with self._turn(source), self._in_line[hash((name, source)) % len(self._in_line)]:
                self._attempts.check(name, source, self._clock.monotonic_s())
                user = await _ask(self._store.user, name)
                expected = (user.password_hash if user else "") or NOBODYS_HASH
                async with self._hashing:
                    right = await asyncio.to_thread(is_password, password, expected)
                if user is None or not right:
                    self._attempts.failed(name, source, self._clock.monotonic_s())
                    raise Unauthorised("no such user, or another password")
                self._attempts.succeeded(name, source)
        except TocsinError:
            self._metrics.tokens.labels("refused").inc()
            raise
        return self._issue(name, user.permission)

    async def issue(self, name: str) -> Issued:
        """A token for a user whom an operator vouches for."""
        user = await _ask(self._store.user, name)
        if user is None:
            raise NotFound(f"no user called {name} is registered")
        return self._issue(name, user.permission)

    async def users(self, after: str, limit: int) -> list[UserRecord]:
        return await _ask(self._store.users, after, limit)

    def void_before_us(self, name: str) -> int:
        """Tokens of the user that were issued before this time are void; 0: none is."""
        known = (self._revocations.get(one) for one in (name, fingerprint(name)))
        return max((one.void_before_us for one in known if one is not None), default=0)

    async def revoke(self, name: str) -> int:
        return self._revoked(await _ask(self._store.revoke, name, self._clock.now_us() + 1))

    async def remove(self, name: str) -> None:
        self._revoked(await _ask(self._store.remove_user, name, self._clock.now_us() + 1))

    async def forget(self, name: str) -> tuple[int, bool]:
        """Remove a user, if there is one, and keep nothing with their name. Returns the version of that revocation, and
        whether there was such a user."""
        revocation, was_there = await _ask(self._store.forget_person, name, self._clock.now_us() + 1)
        self._revocations.pop(name, None)
        self._revoked(revocation)
        return revocation.version, was_there

    def unforgotten_at(self, version: int) -> frozenset[str]:
        """Fingerprints of people whom a broker at `version` has not forgotten yet."""
        return frozenset(one for one in self.revoked_since(version) if is_fingerprint(one))

    def _revoked(self, revocation: Revocation) -> int:
        self._revocations[revocation.user] = revocation
        self.revocations_version = max(self.revocations_version, revocation.version)
        self._checker.revoke(revocation.user, revocation.void_before_us)
        return revocation.void_before_us

    def _issue(self, user: str, permission: str) -> Issued:
        # Not before the last revocation, even if the clock was set back: the token would be void.
        now_us = max(self._clock.now_us(), self.void_before_us(user))
        identity = Identity(user, permission, now_us, now_us + self._lifetime_us)
        self._metrics.tokens.labels("issued").inc()
        return Issued(user, self._signer.sign(identity), identity.expires_at_us)

    @asynccontextmanager
    async def _turn(self, source: str) -> AsyncIterator[None]:
        if self._waiting.total() >= _MAX_WAITING or self._waiting[source] >= _MAX_WAITING_OF_SOURCE:
            raise Unavailable("too many users register and log in at once", retry_after_s=_RETRY_AFTER_S)
        self._waiting[source] += 1
        try:
            yield
        finally:
            self._waiting[source] -= 1
            if not self._waiting[source]:
                del self._waiting[source]


async def _ask(function: Callable[_Given, _Found], *given: _Given.args, **named: _Given.kwargs) -> _Found:
    """Asks the store, in a thread."""
    try:
        return await asyncio.to_thread(function, *given, **named)
    except sa.exc.SQLAlchemyError as exc:
        raise Unavailable("the coordinator's database does not answer", retry_after_s=_RETRY_AFTER_S) from exc
