"""When a session's subscriber left, in microseconds since 1970; 0: it has not. Retention goes on through restarts."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("session", sa.Column("left_at_us", sa.Integer, nullable=False, server_default="0"))
