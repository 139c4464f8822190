"""The columns of channels' results. Those of older channels are found when the cluster starts."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.create_table(
        "result_columns",
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("columns", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
    )
