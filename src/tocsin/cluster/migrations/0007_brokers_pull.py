"""Brokers pull: the cluster needs no address to notify them at."""

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    with op.batch_alter_table("broker") as table:
        table.drop_column("callback_url")
        table.drop_column("push_limit_bytes")
