"""Subscriptions that have failed, and the reasons for pauses that no person asked for."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_table(
        "subscription_failure",
        sa.Column("subscription", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("failed_at_us", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("subscription"),
    )
    op.add_column("paused_channel", sa.Column("reason", sa.Text(), nullable=False, server_default=""))
