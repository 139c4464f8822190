"""Grants in the catalogue's database: which classes may subscribe to a channel, which publishers may use a feed.

Reads come from memory, changes go to the database first. Only a hash of a publisher's token is kept.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from dataclasses import replace

import sqlalchemy as sa

from tocsin.cluster.datasets.catalogue import metadata
from tocsin.errors import AlreadyExists, NotFound, NotGranted
from tocsin.model.grants import Action, Grant, GranteeKind

_granted = sa.Table(
    "granted",
    metadata,
    sa.Column("action", sa.String, primary_key=True),
    #: The channel or feed, in lower case.
    sa.Column("key", sa.String, primary_key=True),
    sa.Column("grantee_kind", sa.String, primary_key=True),
    sa.Column("grantee", sa.String, primary_key=True),
)
_publishers = sa.Table(
    "publisher",
    metadata,
    sa.Column("key", sa.String, primary_key=True),
    sa.Column("name", sa.String, nullable=False),
    sa.Column("token_hash", sa.String, nullable=False),
)


class Grants:
    """Any thread may call it. Names compare without regard to case, permission classes with it."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        with engine.connect() as connection:
            self._grants = frozenset(
                Grant(Action(row.action), row.key, GranteeKind(row.grantee_kind), row.grantee)
                for row in connection.execute(sa.select(_granted))
            )
            rows = connection.execute(sa.select(_publishers)).all()
        #: Names of publishers, by their lower-case form.
        self.publishers = {row.key: str(row.name) for row in rows}
        self._hashes = {str(row.token_hash): str(row.key) for row in rows}

    # Grants

    def grant(self, grant: Grant) -> bool:
        """False if it was granted already."""
        found = _normal(grant)
        with self._lock:
            if found in self._grants:
                return False
            with self._engine.begin() as connection:
                connection.execute(_granted.insert().values(_row(found)))
            self._grants |= {found}
            return True

    def revoke(self, grant: Grant) -> bool:
        """False if it was not granted."""
        found = _normal(grant)
        with self._lock:
            if found not in self._grants:
                return False
            with self._engine.begin() as connection:
                connection.execute(_granted.delete().filter_by(**_row(found)))
            self._grants -= {found}
            return True

    def forget(self, action: Action, on: str) -> None:
        """A channel or feed was dropped: a new one of its name gets its own grants."""
        with self._lock:
            with self._engine.begin() as connection:
                connection.execute(_granted.delete().filter_by(action=action.value, key=on.lower()))
            self._grants = frozenset(one for one in self._grants if (one.action, one.on) != (action, on.lower()))

    def all(self) -> list[Grant]:
        """Sorted by channel or feed. Those are in lower case, publishers as they were created."""
        named = [
            replace(one, grantee=self.publishers.get(one.grantee, one.grantee))
            if one.grantee_kind is GranteeKind.PUBLISHER
            else one
            for one in self._grants
        ]
        return sorted(named, key=lambda one: (one.on, one.action, one.grantee_kind, one.grantee))

    def grantees(self, action: Action, on: str) -> list[str]:
        """The classes or publishers that a channel or a feed is granted to, apart from ALL."""
        return [
            one.grantee
            for one in self.all()
            if (one.action, one.on) == (action, on.lower()) and one.grantee_kind is not GranteeKind.ALL
        ]

    def is_open(self, channel: str) -> bool:
        """Whether everybody may subscribe."""
        return Grant(Action.SUBSCRIBE, channel.lower(), GranteeKind.ALL) in self._grants

    def may_subscribe(self, channel: str, permission: str) -> bool:
        own = Grant(Action.SUBSCRIBE, channel.lower(), GranteeKind.CLASS, permission)
        return self.is_open(channel) or own in self._grants

    def check_subscribe(self, channel: str, permission: str) -> None:
        """Raises NotGranted."""
        if not self.may_subscribe(channel, permission):
            raise NotGranted(refusal(channel, permission))

    # Publishers

    def create_publisher(self, name: str) -> str:
        """The publisher's token, which is shown only this once."""
        token = f"publisher-{secrets.token_urlsafe(32)}"
        with self._lock:
            if name.lower() in self.publishers:
                raise AlreadyExists(f"publisher {self.publishers[name.lower()]} exists already")
            hashed = _hash(token.encode())
            with self._engine.begin() as connection:
                connection.execute(_publishers.insert().values(key=name.lower(), name=name, token_hash=hashed))
            self.publishers = {**self.publishers, name.lower(): name}
            self._hashes = {**self._hashes, hashed: name.lower()}
        return token

    def drop_publisher(self, name: str) -> None:
        """Forget a publisher and its grants. Its token is invalid from now on."""
        key = name.lower()
        self.check_publisher(name)
        with self._lock:
            with self._engine.begin() as connection:
                connection.execute(_publishers.delete().filter_by(key=key))
                mine = {"grantee_kind": GranteeKind.PUBLISHER.value, "grantee": key}
                connection.execute(_granted.delete().filter_by(**mine))
            self.publishers = {one: known for one, known in self.publishers.items() if one != key}
            self._hashes = {hashed: one for hashed, one in self._hashes.items() if one != key}
            self._grants = frozenset(
                one for one in self._grants if (one.grantee_kind, one.grantee) != (GranteeKind.PUBLISHER, key)
            )

    def check_publisher(self, name: str) -> None:
        """Raises NotFound."""
        if name.lower() not in self.publishers:
            known = ", ".join(sorted(self.publishers.values())) or "none yet"
            raise NotFound(f"no publisher called {name}; there are: {known}")

    def publisher_of(self, token: bytes) -> str | None:
        """The publisher with this token. Only the comparison of hashes can be timed, which reveals no token."""
        given, found = _hash(token), None
        for hashed, key in self._hashes.items():
            if hmac.compare_digest(given, hashed):
                found = key
        return found

    def may_publish(self, publisher: str, feed: str) -> bool:
        return Grant(Action.PUBLISH, feed.lower(), GranteeKind.PUBLISHER, publisher.lower()) in self._grants


def refusal(channel: str, permission: str) -> str:
    who = f"permission class {permission!r}" if permission else "users without a permission class"
    return f"channel {channel} is not granted to {who}"


def _hash(token: bytes) -> str:
    # Tokens are random and long, so guessing them is hopeless even without a slow hash.
    return hashlib.sha256(token).hexdigest()


def _normal(grant: Grant) -> Grant:
    grantee = grant.grantee.lower() if grant.grantee_kind is GranteeKind.PUBLISHER else grant.grantee
    return replace(grant, on=grant.on.lower(), grantee=grantee)


def _row(grant: Grant) -> dict[str, str]:
    return {
        "action": grant.action.value,
        "key": grant.on,
        "grantee_kind": grant.grantee_kind.value,
        "grantee": grant.grantee,
    }
