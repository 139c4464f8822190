"""The tables as of the first version. An older database has most of them already."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "broker",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("callback_url", sa.String(), nullable=False),
        sa.Column("push_limit_bytes", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
        if_not_exists=True,
    )
    op.create_table(
        "channel",
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("parameters", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("period_s", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("key"),
        if_not_exists=True,
    )
    op.create_table(
        "commit_time",
        sa.Column("table_id", sa.String(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("table_id", "sequence"),
        if_not_exists=True,
    )
    op.create_table(
        "counter",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
        if_not_exists=True,
    )
    op.create_table(
        "dataset",
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("kind", sa.String(), nullable=False),
        sa.Column("schema", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
        if_not_exists=True,
    )
    op.create_table(
        "feed",
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("dataset", sa.String(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("location", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
        if_not_exists=True,
    )
    op.create_table(
        "hold",
        sa.Column("broker", sa.String(), nullable=False),
        sa.Column("subscription", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.PrimaryKeyConstraint("broker", "subscription"),
        sqlite_with_rowid=False,
        if_not_exists=True,
    )
    op.create_table(
        "paused_channel",
        sa.Column("key", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
        if_not_exists=True,
    )
    op.create_table(
        "removed",
        sa.Column("subscription", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("through", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("subscription"),
        sqlite_with_rowid=False,
        if_not_exists=True,
    )
    op.create_table(
        "subscription",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=False, nullable=False),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("ask", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        if_not_exists=True,
    )
    op.create_index("subscription_ask", "subscription", ["channel", "ask"], unique=True, if_not_exists=True)
