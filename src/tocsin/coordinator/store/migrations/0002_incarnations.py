"""The identity that a broker's name belongs to, and its current incarnation."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("coordinator_broker", sa.Column("identity", sa.String(), nullable=False, server_default=""))
    op.add_column("coordinator_broker", sa.Column("incarnation", sa.BigInteger(), nullable=False, server_default="0"))
