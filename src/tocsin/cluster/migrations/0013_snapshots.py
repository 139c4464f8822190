"""Channels may have WITH SNAPSHOT; snapshots that subscriptions still wait for."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.add_column("channel", sa.Column("snapshot", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.create_table(
        "snapshot_request",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("subscription", sa.BigInteger(), nullable=False),
        sa.Column("is_first", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_index("snapshot_request_subscription", "snapshot_request", ["subscription"])
