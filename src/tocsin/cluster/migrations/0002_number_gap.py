"""Numbers that results commits have skipped."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.create_table(
        "number_gap",
        sa.Column("after", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("through", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("after"),
        if_not_exists=True,
    )
