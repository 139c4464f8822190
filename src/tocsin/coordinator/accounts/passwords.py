"""Passwords: kept as scrypt hashes that carry their own parameters.

Both functions take a fifth of a second of one core, on purpose; they are for threads, not for the event loop.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os

#: OWASP's cheat sheet on password storage names these as enough: 16 MB, five times over.
_N, _R, _P = 1 << 14, 8, 5
_SALT_BYTES = 16
_HASH_BYTES = 32
_MAX_MEMORY_BYTES = 64 << 20


def hash_password(password: str) -> str:
    salt = os.urandom(_SALT_BYTES)
    return f"scrypt${_N}${_R}${_P}${_text(salt)}${_text(_scrypt(password, salt, _N, _R, _P))}"


def is_password(password: str, hashed: str) -> bool:
    """Whether `hashed` was made from `password`. Takes equally long either way."""
    _, n, r, p, salt, expected = hashed.split("$")
    found = _scrypt(password, base64.b64decode(salt), int(n), int(r), int(p))
    return hmac.compare_digest(found, base64.b64decode(expected))


#: No known password has this hash; comparing with it makes unknown users take as long as known ones.
NOBODYS_HASH = f"scrypt${_N}${_R}${_P}${base64.b64encode(bytes(_SALT_BYTES)).decode()}$" + (
    base64.b64encode(os.urandom(_HASH_BYTES)).decode()
)


def _scrypt(password: str, salt: bytes, n: int, r: int, p: int) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=n, r=r, p=p, maxmem=_MAX_MEMORY_BYTES, dklen=_HASH_BYTES)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
