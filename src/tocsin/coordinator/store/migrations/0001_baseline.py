"""The tables as they were when versions began. A database from before that has most of them already."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "coordinator_audit",
        sa.Column("number", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.Column("who", sa.String(), nullable=False),
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("subject", sa.String(), nullable=False),
        sa.Column("details", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number"),
        if_not_exists=True,
    )
    op.create_table(
        "coordinator_broker",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("url", sa.String(), nullable=False),
        sa.Column("x", sa.Float(), nullable=True),
        sa.Column("y", sa.Float(), nullable=True),
        sa.Column("capacity", sa.Float(), nullable=False),
        sa.Column("mode", sa.String(), nullable=False),
        sa.Column("dead", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
        if_not_exists=True,
    )
    op.create_table(
        "coordinator_move",
        sa.Column("plan", sa.String(), nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("subscriber", sa.String(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("destination", sa.String(), nullable=False),
        sa.Column("load", sa.Float(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("step", sa.String(), nullable=False),
        sa.Column("outcome", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("plan", "number"),
        if_not_exists=True,
    )
    op.create_table(
        "coordinator_plan",
        sa.Column("plan", sa.String(), nullable=False),
        sa.Column("stage", sa.String(), nullable=False),
        sa.Column("policy", sa.String(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("by", sa.String(), nullable=False),
        sa.Column("moves", sa.BigInteger(), nullable=False),
        sa.Column("figures", sa.Text(), nullable=False),
        sa.Column("stopped", sa.Boolean(), nullable=False),
        sa.Column("ended", sa.Boolean(), nullable=False),
        sa.Column("begun_at_us", sa.BigInteger(), nullable=False),
        sa.Column("changed_at_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("plan"),
        if_not_exists=True,
    )
    op.create_table(
        "coordinator_revocation",
        sa.Column("user", sa.String(), nullable=False),
        sa.Column("void_before_us", sa.BigInteger(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("user"),
        if_not_exists=True,
    )
    op.create_table(
        "coordinator_session",
        sa.Column("subscriber", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("connected", sa.Boolean(), nullable=False),
        sa.Column("subscriptions", sa.Text(), nullable=False),
        sa.Column("former", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("subscriber"),
        if_not_exists=True,
    )
    op.create_table(
        "coordinator_setting",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("value", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
        if_not_exists=True,
    )
    op.create_table(
        "coordinator_user",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("password", sa.String(), nullable=False),
        sa.Column("permission", sa.String(), nullable=False),
        sa.Column("created_at_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
        if_not_exists=True,
    )
