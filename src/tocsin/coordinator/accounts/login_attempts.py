"""Limits attempts at passwords: few failures a minute from one address for one user (pure).

Only failures from the same address count, so strangers elsewhere can't lock a user out. The time that hashing takes
bounds how fast all addresses together can try.
"""

from __future__ import annotations

import ipaddress
from collections import OrderedDict, deque

from tocsin.errors import Overloaded

_PER_MINUTE = 10
_WINDOW_S = 60.0
#: Pairs of user and source that are remembered, also for unknown users; the ones tried longest ago are forgotten first.
_MAX_PAIRS = 10_000
#: A holder of one IPv6 address usually has its whole /64 network.
_IPV6_PREFIX = 64


class FailedAttempts:
    def __init__(self) -> None:
        self._failed_s: OrderedDict[tuple[str, str], deque[float]] = OrderedDict()

    def check(self, user: str, source: str, now_s: float) -> None:
        """Raises Overloaded if there were too many failures within the last minute."""
        failed = self._failed_s.get((user, source))
        if failed is not None and len(failed) >= _PER_MINUTE and now_s - failed[0] < _WINDOW_S:
            raise Overloaded(
                "too many failed attempts to log in; wait before the next", retry_after_s=_WINDOW_S - now_s + failed[0]
            )

    def failed(self, user: str, source: str, now_s: float) -> None:
        pair = (user, source)
        self._failed_s.setdefault(pair, deque(maxlen=_PER_MINUTE)).append(now_s)
        self._failed_s.move_to_end(pair)
        while len(self._failed_s) > _MAX_PAIRS:
            self._failed_s.popitem(last=False)

    def succeeded(self, user: str, source: str) -> None:
        self._failed_s.pop((user, source), None)


def source_of(address: str) -> str:
    """What counts as one source: an address of IPv4, a network of IPv6.

    >>> source_of("203.0.113.9"), source_of("2001:db8:1:2:3::4"), source_of("2001:db8:1:2:ffff::1"), source_of("")
    ('203.0.113.9', '2001:db8:1:2::/64', '2001:db8:1:2::/64', '')
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, _IPV6_PREFIX), strict=False))
