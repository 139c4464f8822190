"""The current incarnation of each broker."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "incarnation",
        sa.Column("broker", sa.String(), nullable=False),
        sa.Column("identity", sa.String(), nullable=False),
        sa.Column("incarnation", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("broker"),
        if_not_exists=True,
    )
