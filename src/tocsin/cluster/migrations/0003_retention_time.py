"""The time that retention uses."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "retention_time",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("now_us", sa.BigInteger(), nullable=False),
        sa.Column("claimed_us", sa.BigInteger(), nullable=True),
        sa.Column("doubted_s", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        if_not_exists=True,
    )
