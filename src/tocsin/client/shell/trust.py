"""Whose certificates are trusted, where nobody says otherwise."""

from __future__ import annotations

import ssl
from functools import cache

import httpx


@cache
def usual_trust() -> ssl.SSLContext:
    """As httpx would have it. Made once: it takes some 20 ms, and thousands of subscribers may live in one process."""
    return httpx.create_ssl_context()
