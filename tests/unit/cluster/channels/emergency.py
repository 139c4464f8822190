"""The datasets of the emergency application, for tests of the compiler."""

from __future__ import annotations

from tocsin.cluster.channels.compiler.compile import CompiledChannel, compile_channel
from tocsin.cluster.channels.compiler.scripts import read_script
from tocsin.cluster.channels.compiler.statements import CreateChannel, CreateDataset, Statement
from tocsin.cluster.channels.compiler.template import Relation, RelationRole
from tocsin.model.catalogue import Channel

SCHEMA = """
CREATE ACTIVE DATASET EmergencyReports (id STRING, etype STRING, x DOUBLE, y DOUBLE, severity INT,
                                        message STRING, PRIMARY KEY (id));
CREATE KEYED DATASET UserLocations (user_id STRING, x DOUBLE, y DOUBLE, PRIMARY KEY (user_id));
CREATE REFERENCE DATASET Shelters (id STRING, name STRING, x DOUBLE, y DOUBLE, PRIMARY KEY (id));
"""

NEW_REPORTS = Relation(RelationRole.NEW, "EmergencyReports")
FULL_REPORTS = Relation(RelationRole.FULL, "EmergencyReports")
MARKED_REPORTS = Relation(RelationRole.FULL_MARKED, "EmergencyReports")


def parse_script(text: str) -> tuple[Statement, ...]:
    """The statements of a script, without their positions."""
    return tuple(one.statement for one in read_script(text).statements)


DATASETS = {
    statement.dataset.name.lower(): statement.dataset
    for statement in parse_script(SCHEMA)
    if isinstance(statement, CreateDataset)
}


def parse_statement(text: str) -> Statement:
    """The one statement that the text holds."""
    (statement,) = parse_script(text)
    return statement


def channel(text: str) -> Channel:
    statement = parse_statement(text)
    assert isinstance(statement, CreateChannel)
    return statement.channel


def compile_body(
    body: str, parameters: str = "etype STRING, user_id STRING, x DOUBLE, y DOUBLE, r DOUBLE"
) -> CompiledChannel:
    return compile_channel(channel(f"CREATE REPETITIVE CHANNEL C ({parameters}) PERIOD 10 SECONDS AS {body}"), DATASETS)


def shown(compiled: CompiledChannel) -> str:
    """The SQL with telling names for relations, and cells of 256 where a parameter decides."""
    sizes = dict.fromkeys(compiled.radius_parameters, 256.0)
    return compiled.render({relation: shown_name(relation) for relation in compiled.relations}, sizes)


def shown_name(relation: Relation) -> str:
    return f"{relation.role.lower()}_{relation.dataset}" if relation.dataset else "subscriptions"
