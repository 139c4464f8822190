"""The column that makes two subscriptions the same is called `key`."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.drop_index("subscription_ask", "subscription")
    op.alter_column("subscription", "ask", new_column_name="key")
    key: str | sa.TextClause = "key"
    if op.get_context().dialect.name == "postgresql":
        key = sa.text(r"sha256(CAST(replace(key, '\', '\\') AS BYTEA))")
    op.create_index("subscription_key", "subscription", ["channel", key], unique=True)
