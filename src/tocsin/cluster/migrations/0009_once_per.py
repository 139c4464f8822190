"""Channels may have ONCE PER."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column("channel", sa.Column("once", sa.Text(), nullable=True))
