"""Who may subscribe to what, and publish where."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from databases import Database
from tocsin.cluster.api.access import Access, Role
from tocsin.cluster.database import open_catalogue
from tocsin.cluster.datasets.grants import Grants
from tocsin.errors import AlreadyExists, Forbidden, NotFound, NotGranted, Unauthorised
from tocsin.model.grants import Action, Grant, GranteeKind

_ALL = Grant(Action.SUBSCRIBE, "Alerts", GranteeKind.ALL)
_MEDICS = Grant(Action.SUBSCRIBE, "Alerts", GranteeKind.CLASS, "medics")


@pytest.fixture
def grants(database: Database) -> Grants:
    return Grants(open_catalogue(database))


def test_a_class_without_grant_is_refused(grants: Grants, database: Database) -> None:
    """Channels go by name in whatever case, classes as they are written; grants outlive the process."""
    with pytest.raises(NotGranted, match="Alerts is not granted to users without a permission class"):
        grants.check_subscribe("Alerts", "")
    assert grants.grant(_MEDICS)
    assert not grants.grant(_MEDICS), "granted already"
    for known in (grants, Grants(open_catalogue(database))):
        known.check_subscribe("alerts", "medics")
        for other in ("", "Medics", "police"):
            with pytest.raises(NotGranted):
                known.check_subscribe("ALERTS", other)
    grants.grant(_ALL)
    grants.check_subscribe("Alerts", "police")
    assert grants.revoke(_ALL)
    assert not grants.revoke(_ALL), "not granted any more"
    assert not grants.may_subscribe("Alerts", "police")
    assert grants.may_subscribe("Alerts", "medics")


def test_what_is_made_in_its_place_has_grants_of_its_own(grants: Grants, database: Database) -> None:
    """Who drops a channel drops its grants."""
    grants.grant(_MEDICS)
    grants.grant(Grant(Action.SUBSCRIBE, "Others", GranteeKind.ALL))
    grants.forget(Action.SUBSCRIBE, "ALERTS")
    for known in (grants, Grants(open_catalogue(database))):
        assert [one.on for one in known.all()] == ["others"]


def test_a_publisher_publishes_to_its_feeds_only(grants: Grants, database: Database) -> None:
    """And does nothing else. Its token is nowhere in the database, and opens nothing once the publisher is dropped."""
    token = grants.create_publisher("Station").encode()
    with pytest.raises(AlreadyExists):
        grants.create_publisher("station")
    grants.grant(Grant(Action.PUBLISH, "Reports", GranteeKind.PUBLISHER, "STATION"))
    for known in (grants, Grants(open_catalogue(database))):
        access = Access("operators", "brokers", grants=known)
        assert access.admit(token, "POST", "/v1/feeds/reports/records") is Role.PUBLISHER
        for method, request in (
            ("POST", "/v1/feeds/others/records"),
            ("GET", "/v1/feeds/reports/receipts/abc"),
            ("POST", "/v1/statements"),
            ("PUT", "/v1/brokers/north"),
        ):
            with pytest.raises(Forbidden):
                access.admit(token, method, request)
        for wrong in (token[:-1], token + b"x", b""):
            with pytest.raises(Unauthorised):
                access.admit(wrong, "POST", "/v1/feeds/reports/records")
    with open_catalogue(database).connect() as connection:
        assert token.decode() not in str(connection.execute(sa.text("SELECT * FROM publisher")).all())
    grants.drop_publisher("station")
    assert grants.all() == []
    with pytest.raises(Unauthorised):
        Access("operators", grants=grants).admit(token, "POST", "/v1/feeds/reports/records")
    with pytest.raises(NotFound, match="no publisher called station; there are: none yet"):
        grants.drop_publisher("station")
