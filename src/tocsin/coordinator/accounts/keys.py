"""The keys that tokens are signed with, and how one follows another.

The coordinator announces a new key before it signs, so that every broker knows it when the first token comes. The old
key stays valid for as long as a token that it signed may live. A key that has leaked is dropped instead: then every
user needs a new token.
"""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass

import structlog

from tocsin.coordinator.accounts.key_store import KeyStore
from tocsin.coordinator.store.registry_store import Store
from tocsin.errors import InUse
from tocsin.runtime.clock import Clock
from tocsin.runtime.tokens import Identity, TokenSigner, key_id

log = structlog.get_logger(__name__)

_RETIRED = "retired_keys"
#: A check tries each key in turn, and strangers can send tokens that fit none.
_MAX_RETIRED = 3


@dataclass(frozen=True, slots=True)
class Rotation:
    """The id of the new key, and from when on it signs. The old one is valid until `old_until_us`."""

    key: str
    signs_from_us: int
    old_until_us: int


class Keys:
    """All methods except `sign` and `public_keys` wait for the disk. Threads may call them."""

    def __init__(self, kept: KeyStore, store: Store, clock: Clock, announce_s: float) -> None:
        self._kept = kept
        self._store = store
        self._clock = clock
        self._announce_us = round(announce_s * 1e6)
        self._lock = threading.Lock()
        self._current = kept.current()
        self._next: TokenSigner | None = None
        self._next_signs_us = 0
        self._retired: dict[str, int] = json.loads(store.setting(_RETIRED) or "{}")
        if kept.has_next():
            self._announce()
        self._published = self._gathered()

    def sign(self, identity: Identity) -> str:
        return self._current.sign(identity)

    def public_keys(self) -> tuple[str, ...]:
        """All keys that tokens may be signed with; the one that signs now comes first."""
        return self._published

    def rotate(self) -> Rotation:
        """Make a new key. Raises InUse while another one is announced, or while too many old ones are still valid."""
        with self._lock:
            self._forget_expired()
            if self._next is not None:
                raise InUse("a new key has been announced already")
            if len(self._retired) >= _MAX_RETIRED:
                first_us = min(self._retired.values())
                raise InUse(
                    f"{_MAX_RETIRED} earlier keys are still trusted, the first until {first_us} µs since 1970; "
                    "wait, or drop all of them"
                )
            key = key_id(self._announce().public_key())
            log.info("a new key is announced", key=key)
            return Rotation(key, self._next_signs_us, self._next_signs_us + self._store.longest_lifetime_us())

    def drop_old(self) -> Rotation:
        """Make a new key that signs at once, and make all others invalid."""
        with self._lock:
            self._kept.drop_next()
            self._next = None
            self._keep_retired({})
            made = self._kept.next()
            self._promote(made)
            log.warning("a new key signs, and all tokens from before are void", key=key_id(made.public_key()))
            now_us = self._clock.now_us()
            return Rotation(key_id(made.public_key()), now_us, now_us)

    def advance(self) -> None:
        """Let the next key sign when its time has come, and forget expired keys. Call it now and then."""
        with self._lock:
            self._forget_expired()
            if self._next is not None and self._clock.now_us() >= self._next_signs_us:
                # Stored first: if the process ends in between, the old key goes on signing, and is listed twice.
                until_us = self._clock.now_us() + self._store.longest_lifetime_us()
                self._keep_retired({**self._retired, self._current.public_key(): until_us})
                self._promote(self._next)
                log.info("the new key signs", key=key_id(self._current.public_key()))

    def _announce(self) -> TokenSigner:
        self._next = made = self._kept.next()
        self._next_signs_us = self._clock.now_us() + self._announce_us
        self._published = self._gathered()
        return made

    def _promote(self, signer: TokenSigner) -> None:
        self._kept.promote_next()
        self._current, self._next = signer, None
        self._published = self._gathered()

    def _forget_expired(self) -> None:
        now_us = self._clock.now_us()
        if any(until_us <= now_us for until_us in self._retired.values()):
            self._keep_retired({key: until_us for key, until_us in self._retired.items() if until_us > now_us})
            self._published = self._gathered()

    def _keep_retired(self, retired: dict[str, int]) -> None:
        self._store.choose(_RETIRED, json.dumps(retired))
        self._retired = retired

    def _gathered(self) -> tuple[str, ...]:
        upcoming = [self._next.public_key()] if self._next else []
        return tuple(dict.fromkeys([self._current.public_key(), *upcoming, *self._retired]))
