"""Whose name a broker's name is, and which of its starts counts."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("coordinator_broker", sa.Column("identity", sa.String(), nullable=False, server_default=""))
    op.add_column("coordinator_broker", sa.Column("incarnation", sa.BigInteger(), nullable=False, server_default="0"))
