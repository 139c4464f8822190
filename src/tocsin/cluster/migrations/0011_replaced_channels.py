"""Subscriptions that have ended because their channel was replaced, until their holders have been notified."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.create_table(
        "ending_subscription",
        sa.Column("subscription", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("channel", sa.String(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("subscription"),
    )
