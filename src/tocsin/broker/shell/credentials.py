"""A broker's credentials for the cluster and the coordinator (pure)."""

from __future__ import annotations

from tocsin.protocol.incarnations import IDENTITY_HEADER


def bearing(token: str, identity: str) -> list[tuple[bytes, bytes]]:
    """The token says that it is a broker, the identity says which one. Without a token, neither is sent."""
    if not token:
        return []
    return [(b"Authorization", f"Bearer {token}".encode()), (IDENTITY_HEADER.encode(), identity.encode())]
