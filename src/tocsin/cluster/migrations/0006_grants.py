"""Publishers and grants: which classes may subscribe to a channel, which publishers may publish to a feed."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.create_table(
        "granted",
        sa.Column("action", sa.String(), nullable=False),
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("grantee_kind", sa.String(), nullable=False),
        sa.Column("grantee", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("action", "key", "grantee_kind", "grantee"),
    )
    op.create_table(
        "publisher",
        sa.Column("key", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("token_hash", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("key"),
    )
    # Everybody could subscribe to the existing channels, and still can.
    op.execute("INSERT INTO granted SELECT 'SUBSCRIBE', key, 'ALL', '' FROM channel")
