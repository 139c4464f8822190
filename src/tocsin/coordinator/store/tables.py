"""The coordinator's tables: SQLite by default, PostgreSQL by address."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from tocsin.runtime.leadership import Term
from tocsin.runtime.schema import open_database
from tocsin.runtime.versions import Versions

metadata = sa.MetaData()

# The names share a prefix, so that the database can also hold the cluster's catalogue.
users = sa.Table(
    "coordinator_user",
    metadata,
    sa.Column("name", sa.String, primary_key=True),
    sa.Column("password", sa.String, nullable=False),
    sa.Column("permission", sa.String, nullable=False),
    sa.Column("created_at_us", sa.BigInteger, nullable=False),
)
#: Outlives the user: older tokens must not be valid for a later user of the same name.
revocations = sa.Table(
    "coordinator_revocation",
    metadata,
    sa.Column("user", sa.String, primary_key=True),
    sa.Column("void_before_us", sa.BigInteger, nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
)
brokers = sa.Table(
    "coordinator_broker",
    metadata,
    sa.Column("name", sa.String, primary_key=True),
    sa.Column("url", sa.String, nullable=False),
    sa.Column("x", sa.Float),
    sa.Column("y", sa.Float),
    sa.Column("capacity", sa.Float, nullable=False),
    sa.Column("mode", sa.String, nullable=False),
    sa.Column("dead", sa.Boolean, nullable=False),
    sa.Column("identity", sa.String, nullable=False, server_default=""),
    sa.Column("incarnation", sa.BigInteger, nullable=False, server_default="0"),
)
sessions = sa.Table(
    "coordinator_session",
    metadata,
    sa.Column("subscriber", sa.String, primary_key=True),
    sa.Column("owner", sa.String, nullable=False),
    sa.Column("generation", sa.BigInteger, nullable=False),
    sa.Column("connected", sa.Boolean, nullable=False),
    sa.Column("subscriptions", sa.Text, nullable=False),
    sa.Column("former", sa.Text, nullable=False),
)
settings = sa.Table(
    "coordinator_setting",
    metadata,
    sa.Column("name", sa.String, primary_key=True),
    sa.Column("value", sa.String, nullable=False),
)
plans = sa.Table(
    "coordinator_plan",
    metadata,
    sa.Column("plan", sa.String, primary_key=True),
    sa.Column("stage", sa.String, nullable=False),
    sa.Column("policy", sa.String, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("by", sa.String, nullable=False),
    sa.Column("moves", sa.BigInteger, nullable=False),
    sa.Column("figures", sa.Text, nullable=False),
    sa.Column("stopped", sa.Boolean, nullable=False),
    sa.Column("ended", sa.Boolean, nullable=False),
    sa.Column("begun_at_us", sa.BigInteger, nullable=False),
    sa.Column("changed_at_us", sa.BigInteger, nullable=False),
)
moves = sa.Table(
    "coordinator_move",
    metadata,
    sa.Column("plan", sa.String, primary_key=True),
    sa.Column("number", sa.BigInteger, primary_key=True),
    sa.Column("subscriber", sa.String, nullable=False),
    sa.Column("source", sa.String, nullable=False),
    sa.Column("destination", sa.String, nullable=False),
    sa.Column("load", sa.Float, nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("step", sa.String, nullable=False),
    sa.Column("outcome", sa.String, nullable=False),
)
#: Append-only.
audit = sa.Table(
    "coordinator_audit",
    metadata,
    sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
    sa.Column("at_us", sa.BigInteger, nullable=False),
    sa.Column("who", sa.String, nullable=False),
    sa.Column("action", sa.String, nullable=False),
    sa.Column("subject", sa.String, nullable=False),
    sa.Column("details", sa.Text, nullable=False),
)


VERSIONS = Versions("the coordinator's database", "coordinator_version", Path(__file__).parent / "migrations")


def open_tables(address: str | Path, term: Term | None = None) -> sa.Engine:
    return open_database(address, VERSIONS, metadata, term=term)
