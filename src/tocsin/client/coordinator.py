"""A client of the coordinator's HTTP API, for operators' scripts, tools and tests."""

from __future__ import annotations

from typing import Any

from tocsin.client.shell.http import HttpClient
from tocsin.protocol.paths import path_part

_TIMEOUT_S = 30.0
#: A shuffle of a million takes most of a minute.
_PLAN_TIMEOUT_S = 300.0


class CoordinatorClient(HttpClient):
    """One connection pool to one coordinator. `token` is an operator's; `place` takes a user's.

    >>> client = CoordinatorClient("http://127.0.0.1:8500")  # doctest: +SKIP
    >>> client.brokers()  # doctest: +SKIP
    """

    def __init__(self, url: str = "http://127.0.0.1:8500", *, token: str = "", timeout_s: float = _TIMEOUT_S) -> None:
        super().__init__(url, token=token, timeout_s=timeout_s)

    def status(self) -> dict[str, Any]:
        return self._json("GET", "/v1/status")

    # Users

    def register(self, user: str, password: str, permission: str = "") -> dict[str, Any]:
        """Register a user; returns a token for them, and its time of expiry."""
        body = {"name": user, "password": password} | ({"permission": permission} if permission else {})
        return self._json("POST", "/v1/users", json=body)

    def log_in(self, user: str, password: str) -> dict[str, Any]:
        """A new token for a user."""
        return self._json("POST", "/v1/tokens", json={"name": user, "password": password})

    def users(self, after: str = "", limit: int = 10_000) -> list[dict[str, Any]]:
        """Users by name, from the one after `after`."""
        users: list[dict[str, Any]] = self._json("GET", "/v1/users", params={"after": after, "limit": limit})["users"]
        return users

    def remove_user(self, user: str) -> None:
        self._send("DELETE", f"/v1/users/{path_part(user)}")

    def revoke(self, user: str) -> dict[str, Any]:
        """Make all tokens void that were issued to a user up to now."""
        return self._json("POST", f"/v1/users/{path_part(user)}/revoke")

    def forget(self, person: str, *, by: str = "operator") -> dict[str, Any]:
        """Erase a person's name from the coordinator and from all brokers. Returns whether there was such a user, how
        many sessions were removed, which brokers have done it, and which will do it when they are back."""
        return self._json("POST", "/v1/forget", json={"name": person, "by": by}, timeout=_PLAN_TIMEOUT_S)

    # Brokers

    def brokers(self) -> list[dict[str, Any]]:
        brokers: list[dict[str, Any]] = self._json("GET", "/v1/brokers")["brokers"]
        return brokers

    def broker(self, name: str) -> dict[str, Any]:
        return self._json("GET", f"/v1/brokers/{path_part(name)}")

    def set_state(self, name: str, state: str, *, by: str = "operator") -> dict[str, Any]:
        """Make a broker `active`, `cordoned` or `draining`."""
        return self._json("PUT", f"/v1/brokers/{path_part(name)}/state", json={"state": state, "by": by})

    def remove_broker(self, name: str) -> dict[str, Any]:
        return self._json("DELETE", f"/v1/brokers/{path_part(name)}")

    def round_trips(self, broker: str = "") -> list[dict[str, Any]]:
        """Round trips between all brokers, or from one to the others: measured and estimated."""
        params = {"broker": broker} if broker else {}
        pairs: list[dict[str, Any]] = self._json("GET", "/v1/round-trips", params=params)["round_trips"]
        return pairs

    # Plans

    def make_plan(self, *, shown_moves: int = 100, **wish: Any) -> dict[str, Any]:
        """Make a plan without carrying it out; `wish` is as in `protocol.plans.PlanRequest`."""
        return self._json("POST", "/v1/plans", json=wish, params={"moves": shown_moves}, timeout=_PLAN_TIMEOUT_S)

    def plans(self) -> list[dict[str, Any]]:
        plans: list[dict[str, Any]] = self._json("GET", "/v1/plans")["plans"]
        return plans

    def plan(self, plan: str, *, shown_moves: int = 100) -> dict[str, Any]:
        return self._json("GET", f"/v1/plans/{path_part(plan)}", params={"moves": shown_moves})

    def execute(self, plan: str, *, by: str = "operator", reason: str = "") -> dict[str, Any]:
        """Carry out a plan that was made before."""
        return self._json("POST", f"/v1/plans/{path_part(plan)}/execution", json={"by": by, "reason": reason})

    def stop(self, plan: str, *, by: str = "operator") -> dict[str, Any]:
        """Begin no more moves of a plan."""
        return self._json("DELETE", f"/v1/plans/{path_part(plan)}/execution", params={"by": by})

    def execution(self, plan: str, *, shown_moves: int = 100) -> dict[str, Any]:
        """How far a plan is."""
        return self._json("GET", f"/v1/plans/{path_part(plan)}/execution", params={"moves": shown_moves})

    def executions(self, limit: int = 100) -> list[dict[str, Any]]:
        """Current and past executions of plans, newest first."""
        found: list[dict[str, Any]] = self._json("GET", "/v1/executions", params={"limit": limit})["executions"]
        return found

    def balancing(self) -> dict[str, Any]:
        """The brokers' loads, and the settings of balancing."""
        return self._json("GET", "/v1/balancing")

    def change_balancing(self, **changes: Any) -> dict[str, Any]:
        """Change the settings; `changes` are as in `protocol.plans.BalancingBody`."""
        return self._json("PUT", "/v1/balancing", json=changes)

    def audit(self, before: int | None = None, limit: int = 100) -> list[dict[str, Any]]:
        """Actions with their actors and reasons, newest first."""
        params = {"limit": limit} | ({} if before is None else {"before": before})
        entries: list[dict[str, Any]] = self._json("GET", "/v1/audit", params=params)["entries"]
        return entries

    # Subscribers

    def place(self, user_token: str, **request: Any) -> dict[str, Any]:
        """The broker for a user's device; `request` may hold `device`, `location`, `avoid`."""
        headers = {"Authorization": f"Bearer {user_token}"}
        return self._json("POST", "/v1/placements", json=request, headers=headers)

    def subscribers(self, broker: str = "", after: str = "", limit: int = 10_000) -> list[dict[str, Any]]:
        params: dict[str, Any] = {"broker": broker, "after": after, "limit": limit}
        subscribers: list[dict[str, Any]] = self._json("GET", "/v1/subscribers", params=params)["subscribers"]
        return subscribers

    def session(self, user: str, device: str) -> dict[str, Any]:
        return self._json("GET", f"/v1/subscribers/{path_part(user)}/{path_part(device)}")

    def policy(self) -> dict[str, Any]:
        """The placement policy, and the available ones."""
        return self._json("GET", "/v1/placement-policy")

    def choose_policy(self, name: str) -> dict[str, Any]:
        return self._json("PUT", "/v1/placement-policy", json={"policy": name})
