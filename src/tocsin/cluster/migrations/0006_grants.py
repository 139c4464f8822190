"""Who may subscribe to which channel and publish to which feed, and publishers."""

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
    # Everybody could subscribe to what there is, and can go on.
    op.execute("INSERT INTO granted SELECT 'SUBSCRIBE', key, 'ALL', '' FROM channel")
