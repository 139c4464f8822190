"""Channels that keep their results for a time of their own."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.add_column("channel", sa.Column("retention_s", sa.Float(), nullable=True))
