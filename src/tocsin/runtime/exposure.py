"""Who can reach a server, by the address it listens on (pure)."""

from __future__ import annotations

import ipaddress

from tocsin.errors import InvalidValue


def is_loopback(host: str) -> bool:
    """Whether only programs on this machine reach a server that listens on `host`.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "", "example.org")]
    [True, True, True, False, False, False]
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def check_exposure(host: str, api_token: str, *, is_meant: bool) -> None:
    """Raises InvalidValue if anybody on the network could do everything, unless `is_meant`."""
    if not api_token and not is_meant and not is_loopback(host):
        raise InvalidValue(
            f"setting host: {host!r} can be reached from other machines, and without api_token everybody there may do "
            "everything; set api_token, or listen on 127.0.0.1, or set open_to_network if something in front keeps "
            "strangers out"
        )
