"""Revocations, so that a broker that starts while the coordinator is away knows of them."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "revocation",
        sa.Column("user", sa.Text, primary_key=True),
        sa.Column("void_before_us", sa.Integer, nullable=False),
        sqlite_with_rowid=False,
    )
