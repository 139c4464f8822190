"""The filters of subscriptions, as subscribers wrote them; empty: none."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.add_column("subscription", sa.Column("filter", sa.Text, nullable=False, server_default=""))
