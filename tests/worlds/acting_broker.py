"""A client of the coordinator that can also act as brokers do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tocsin.client import CoordinatorClient


class ActingBroker(CoordinatorClient):
    """Each method names the broker that it acts as."""

    def register_broker(self, name: str, url: str, **more: Any) -> dict[str, Any]:
        """`more` may hold `location` and `capacity`."""
        return self._json("PUT", f"/v1/brokers/{name}", json={"url": url, **more})

    def heartbeat(self, name: str, heartbeat: Mapping[str, Any]) -> dict[str, Any]:
        return self._json("POST", f"/v1/brokers/{name}/heartbeats", json=dict(heartbeat))

    def claim(self, name: str, subscribers: Sequence[str]) -> dict[str, int]:
        """Make a broker the owner of subscribers; returns their generations."""
        answer = self._json("POST", f"/v1/brokers/{name}/claims", json={"subscribers": list(subscribers)})
        generations: dict[str, int] = answer["generations"]
        return generations

    def move_away(self, name: str, subscribers: Sequence[str]) -> dict[str, dict[str, str]]:
        answer = self._json("POST", f"/v1/brokers/{name}/moves", json={"subscribers": list(subscribers)})
        placements: dict[str, dict[str, str]] = answer["placements"]
        return placements
