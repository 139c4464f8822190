"""A set of routes, to tell whether a request is for one of them (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterable


class Routes:
    """Written as in OpenAPI: a method and a path, in which `{name}` stands for one part.

    >>> ours = Routes([("PUT", "/v1/brokers/{broker}")])
    >>> ours.cover("PUT", "/v1/brokers/north"), ours.cover("DELETE", "/v1/brokers/north"), ours.cover("PUT", "/v1/x/y")
    (True, False, False)
    >>> ours.cover("PUT", "/v1/brokers/north/"), ours.cover("PUT", "/v1/brokers/")
    (False, False)
    """

    def __init__(self, routes: Iterable[tuple[str, str]]) -> None:
        self.listed = frozenset(routes)
        self._patterns = [(method, _pattern(path)) for method, path in self.listed]

    def cover(self, method: str, path: str) -> bool:
        return any(method == one and pattern.fullmatch(path) for one, pattern in self._patterns)


def _pattern(path: str) -> re.Pattern[str]:
    parts = re.split(r"\{\w+\}", path)
    return re.compile("[^/]+".join(map(re.escape, parts)))
