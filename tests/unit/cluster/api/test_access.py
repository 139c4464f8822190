"""Who may call what at the cluster."""

from __future__ import annotations

import pytest

from tocsin.cluster.api import brokers, catalogue, feeds, statements
from tocsin.cluster.api.access import BROKER_ROUTES, OPEN_ROUTES, Access, Role
from tocsin.errors import Forbidden, InvalidValue, Unauthorised
from tocsin.settings import ClusterSettings

_ACCESS = Access("operators", "brokers", locations_feed="Locations")
_ROUTES = {
    (method, route.path)
    for module in (statements, catalogue, feeds, brokers)
    for route in module.router.routes
    for method in route.methods  # type: ignore[attr-defined]
}


def _path(template: str) -> str:
    return template.replace("{", "a-").replace("}", "")


@pytest.mark.parametrize("route", sorted(_ROUTES), ids=" ".join)
def test_a_broker_may_do_what_brokers_do_and_nothing_else(route: tuple[str, str]) -> None:
    """Operators may do everything; who shows no token, or a wrong one, may do nothing but probe."""
    method, path = route[0], _path(route[1])
    if route in OPEN_ROUTES.listed:
        assert _ACCESS.admit(b"", method, path) is None
        return
    assert _ACCESS.admit(b"operators", method, path) is Role.OPERATOR
    for wrong in (b"", b"operator", b"operators ", "ö".encode()):
        with pytest.raises(Unauthorised):
            _ACCESS.admit(wrong, method, path)
    if route in BROKER_ROUTES.listed:
        assert _ACCESS.admit(b"brokers", method, path) is Role.BROKER
    else:
        with pytest.raises(Forbidden, match="for operators"):
            _ACCESS.admit(b"brokers", method, path)


def test_what_is_listed_for_brokers_is_there() -> None:
    """A route that was renamed must not leave its right behind."""
    assert BROKER_ROUTES.listed | OPEN_ROUTES.listed <= _ROUTES


def test_brokers_publish_to_the_feed_of_locations_alone() -> None:
    """In whatever case it is written; without such a feed, to none."""
    for name in ("Locations", "locations"):
        assert _ACCESS.admit(b"brokers", "POST", f"/v1/feeds/{name}/records") is Role.BROKER
    for path in ("/v1/feeds/reports/records", "/v1/feeds/Locations/records/", "/v1/feeds//records"):
        for access in (_ACCESS, Access("operators", "brokers")):
            with pytest.raises(Forbidden):
                access.admit(b"brokers", "POST", path)


def test_without_an_api_token_everybody_is_an_operator() -> None:
    """As it is on a developer's machine."""
    assert Access("", "brokers").admit(b"", "POST", "/v1/statements") is Role.OPERATOR


def test_an_empty_token_is_nobodys() -> None:
    """A cluster without broker_token knows no brokers."""
    with pytest.raises(Unauthorised):
        Access("operators").admit(b"", "PUT", "/v1/brokers/north")


def test_brokers_and_operators_have_different_tokens() -> None:
    """Else every broker would be an operator, and nobody would notice."""
    with pytest.raises(InvalidValue, match="must differ from api_token"):
        Access.of(ClusterSettings(api_token="same", broker_token="same"))
