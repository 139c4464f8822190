"""PostgreSQL's integers have 32 bits, which a long audit log would use up. SQLite's have 64."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    if op.get_context().dialect.name == "postgresql":
        op.alter_column("coordinator_audit", "number", type_=sa.BigInteger())
        op.execute("ALTER SEQUENCE coordinator_audit_number_seq AS BIGINT")
