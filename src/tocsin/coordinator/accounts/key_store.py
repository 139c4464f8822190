"""Where private keys are kept: in files, or in PostgreSQL, where the next leader finds them."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from tocsin.coordinator.store.registry_store import Store
from tocsin.runtime.tokens import TokenSigner, new_key

_CURRENT_FILE = "signing-key.pem"
_NEXT_FILE = "signing-key.next.pem"
_CURRENT, _NEXT = "signing_key", "next_signing_key"


class KeyStore(Protocol):
    """One key that signs, and one at most that will."""

    def current(self) -> TokenSigner:
        """Makes one if there is none."""

    def next(self) -> TokenSigner:
        """Makes one if there is none."""

    def has_next(self) -> bool: ...

    def drop_next(self) -> None: ...

    def promote_next(self) -> None:
        """It becomes the current one, in one step."""


class FolderKeys:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def current(self) -> TokenSigner:
        return TokenSigner.load(self._folder / _CURRENT_FILE)

    def next(self) -> TokenSigner:
        return TokenSigner.load(self._folder / _NEXT_FILE)

    def has_next(self) -> bool:
        return (self._folder / _NEXT_FILE).exists()

    def drop_next(self) -> None:
        (self._folder / _NEXT_FILE).unlink(missing_ok=True)

    def promote_next(self) -> None:
        (self._folder / _NEXT_FILE).replace(self._folder / _CURRENT_FILE)

    def current_text(self) -> str:
        """The current key; empty if there is none."""
        file = self._folder / _CURRENT_FILE
        return file.read_text() if file.exists() else ""


class DatabaseKeys:
    """`former` has the key of a coordinator that has kept it in files so far."""

    def __init__(self, store: Store, former: FolderKeys) -> None:
        self._store = store
        self._former = former

    def current(self) -> TokenSigner:
        return self._signer(_CURRENT, self._former.current_text())

    def next(self) -> TokenSigner:
        return self._signer(_NEXT)

    def has_next(self) -> bool:
        return bool(self._store.setting(_NEXT))

    def drop_next(self) -> None:
        self._store.choose(_NEXT, "")

    def promote_next(self) -> None:
        self._store.choose_all({_CURRENT: self._store.setting(_NEXT), _NEXT: ""})

    def _signer(self, name: str, otherwise: str = "") -> TokenSigner:
        if not (text := self._store.setting(name)):
            text = otherwise or new_key()
            self._store.choose(name, text)
        return TokenSigner.read(text, "the coordinator's database")
