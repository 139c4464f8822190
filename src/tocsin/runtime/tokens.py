"""Tokens: signed by the coordinator with its private key, checked by anybody with the public one.

A token says who a user is, until when, and with which permission class. The algorithm is fixed: the token's own claim
about it is never believed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tocsin.errors import ClusterFailure, InvalidValue, Unauthorised
from tocsin.model.people import fingerprint

_ALGORITHM = "EdDSA"
_ISSUER = "tocsin-coordinator"
_AUDIENCE = "tocsin"
#: Longer tokens are not ours, and are not examined.
_MAX_TOKEN_CHARS = 4096


@dataclass(frozen=True, slots=True)
class Identity:
    """The user that a token stands for. Times are in microseconds since 1970."""

    user: str
    permission: str
    issued_at_us: int
    expires_at_us: int


class TokenSigner:
    """Holds the private key."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    @staticmethod
    def load(file: Path) -> TokenSigner:
        """The key in `file`; makes a new one if there is none."""
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            aside = file.with_suffix(".new")
            aside.unlink(missing_ok=True)
            handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as output:
                output.write(new_key().encode())
                output.flush()
                os.fsync(output.fileno())
            aside.replace(file)
        return TokenSigner.read(file.read_text(), str(file))

    @staticmethod
    def read(text: str, source: str) -> TokenSigner:
        """The key in `text`, which comes from `source`."""
        key = serialization.load_pem_private_key(text.encode(), password=None)
        if not isinstance(key, Ed25519PrivateKey):
            raise ClusterFailure(
                f"{source} holds another kind of key than Ed25519; move it away to have a new one made"
            )
        return TokenSigner(key)

    def sign(self, identity: Identity) -> str:
        claims = {
            "iss": _ISSUER,
            "aud": _AUDIENCE,
            "sub": identity.user,
            "perm": identity.permission,
            "iat": identity.issued_at_us / 1e6,
            "exp": identity.expires_at_us / 1e6,
        }
        return jwt.encode(claims, self._key, algorithm=_ALGORITHM)

    def public_key(self) -> str:
        public = self._key.public_key()
        return public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo).decode()


class TokenChecker:
    """Checks tokens without asking the coordinator. Revocations are passed in as they become known."""

    def __init__(self, *public_keys: str) -> None:
        self._keys: list[Ed25519PublicKey] = []
        self._trusted: tuple[str, ...] = ()
        self._void_before_us: dict[str, int] = {}
        self.trust(public_keys)

    def trust(self, public_keys: Sequence[str]) -> None:
        """Accept tokens that were signed with these keys, and with no others."""
        if tuple(public_keys) != self._trusted:
            self._keys = [_load(one) for one in public_keys]
            self._trusted = tuple(public_keys)

    def revoke(self, user: str, before_us: int) -> None:
        """Tokens of `user` that were issued before `before_us` are void. A fingerprint replaces a name that must not be
        kept."""
        self._void_before_us[user] = max(before_us, self._void_before_us.get(user, 0))

    def check(self, token: str, now_us: int) -> Identity:
        """The user of the token; raises Unauthorised, saying why without quoting the token."""
        if len(token) > _MAX_TOKEN_CHARS:
            raise Unauthorised(f"the token has more than {_MAX_TOKEN_CHARS} characters")
        try:
            claims = self._claims(token)
            identity = Identity(
                str(claims["sub"]), str(claims.get("perm", "")), round(claims["iat"] * 1e6), round(claims["exp"] * 1e6)
            )
        except (jwt.PyJWTError, ValueError, TypeError, OverflowError) as exc:
            raise Unauthorised("the token is not one of ours; get a new one from the coordinator") from exc
        if identity.expires_at_us <= now_us:
            raise Unauthorised("the token has expired; get a new one from the coordinator")
        void_before_us = self._void_before_us
        known_as = (identity.user, fingerprint(identity.user))
        if identity.issued_at_us < max(void_before_us.get(one, 0) for one in known_as):
            raise Unauthorised("the token has been revoked; get a new one from the coordinator")
        return identity

    def _claims(self, token: str) -> dict[str, Any]:
        """There are one or two keys, a few at most: trying them all costs little, and needs no claim of the token."""
        for at, key in enumerate(self._keys, start=1):
            try:
                return jwt.decode(
                    token,
                    key,
                    algorithms=[_ALGORITHM],
                    audience=_AUDIENCE,
                    issuer=_ISSUER,
                    # The caller checks expiry, against the given clock.
                    options={"require": ["exp", "iat", "sub"], "verify_exp": False, "verify_iat": False},
                )
            except jwt.InvalidSignatureError:
                if at == len(self._keys):
                    raise
        raise jwt.InvalidKeyError("no key is trusted")


def new_key() -> str:
    """A new private key, as text."""
    key = Ed25519PrivateKey.generate()
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


def key_id(public_key: str) -> str:
    """The name of a key, for people and logs."""
    return hashlib.sha256(public_key.encode()).hexdigest()[:16]


def keys_version(public_keys: Sequence[str]) -> str:
    """The name of a set of keys, so that a broker that knows it need not fetch them again."""
    return hashlib.sha256("".join(public_keys).encode()).hexdigest()[:16]


def _load(public_key: str) -> Ed25519PublicKey:
    try:
        key = serialization.load_pem_public_key(public_key.encode())
    except ValueError as exc:
        raise InvalidValue(f"not a public key: {exc}") from exc
    if not isinstance(key, Ed25519PublicKey):
        raise InvalidValue("not an Ed25519 public key")
    return key
