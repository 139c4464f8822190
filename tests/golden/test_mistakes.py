"""Typical mistakes and what is answered, letter by letter: `mistakes.txt` has what was typed and the answer.

Each answer names what is wrong, where, and what to do instead. After a change that is meant, run `pytest tests/golden
--update-golden` and read the difference as somebody who has made the mistake.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError

from tocsin.cli.connecting import describe_failure
from tocsin.cluster.channels.compiler.compile import compile_channel, compile_select
from tocsin.cluster.channels.compiler.parameters import check_values
from tocsin.cluster.channels.compiler.review import review_channel, review_query
from tocsin.cluster.channels.compiler.scripts import read_script
from tocsin.cluster.channels.compiler.statements import CreateChannel, CreateDataset, Delete, Insert, Select, Statement
from tocsin.cluster.datasets.core.records import reason_for_rejection, records_of
from tocsin.coordinator.api.users import Registration
from tocsin.errors import InvalidValue, StatementError, TocsinError
from tocsin.model.catalogue import Channel, ChannelKind, Parameter
from tocsin.model.schema import ColumnType
from tocsin.runtime.validation import in_words
from unit.cluster.channels.emergency import parse_script

GOLDEN = Path(__file__).parent / "mistakes.txt"
DATASETS = {
    one.dataset.name.lower(): one.dataset
    for one in parse_script("""
        CREATE ACTIVE DATASET Positions (id STRING, line STRING, delay_s INT, x DOUBLE, y DOUBLE, at TIMESTAMP,
                                         day DATE, PRIMARY KEY (id));
        CREATE KEYED DATASET Riders (who STRING, x DOUBLE, y DOUBLE, PRIMARY KEY (who));
        CREATE REFERENCE DATASET Stops (id STRING, name STRING, PRIMARY KEY (id));
    """)
    if isinstance(one, CreateDataset)
}
DELAYS = Channel(
    "DelaysOn",
    ChannelKind.CONTINUOUS,
    (Parameter("line", ColumnType.STRING), Parameter("min_delay_s", ColumnType.INT, 36000)),
    "SELECT 1",
)
CHANNEL = "CREATE CONTINUOUS CHANNEL Late (line STRING) AS\n  SELECT p.id FROM Positions p WHERE is_new(p)"

#: What people type who know SQL, and not yet Tocsin.
SCRIPTS = [
    "CREATE TABLE Positions (id STRING)",
    "CREATE DATASET Lines (id STRING)",
    "CREATE ACTIVE DATASET Lines (id STRING PRIMARY KEY)",
    "CREATE ACTIVE DATASET Lines (id STRING)",
    "CREATE ACTIVE DATASET Lines (id STRING, PRIMARY KEY (line))",
    "CREATE REFERENCE DATASET Lines (id VARCHAR(20))",
    "CREATE REFERENCE DATASET bus-lines (id STRING)",
    "CREATE VIEW Late AS SELECT * FROM Positions",
    "CREATE CHANNEL Late (line STRING) AS SELECT * FROM Positions",
    "CREATE OR REPLACE CONTINUOUS CHANNEL Late () AS SELECT 1",
    "CREATE CONTINUOUS CHANNEL Late AS SELECT p.id FROM Positions p WHERE is_new(p)",
    "CREATE CONTINUOUS CHANNEL Late ($line STRING) AS SELECT p.id FROM Positions p WHERE is_new(p)",
    "CREATE CONTINUOUS CHANNEL Late (line) AS SELECT p.id FROM Positions p WHERE is_new(p) AND p.line = :line",
    "CREATE CONTINUOUS CHANNEL Late (line STRING) SELECT p.id FROM Positions p WHERE is_new(p) AND p.line = :line",
    "CREATE CONTINUOUS CHANNEL Mine () AS SELECT r.x FROM Riders r WHERE is_new(r) AND r.who = current_user()",
    "CREATE CONTINUOUS CHANNEL Mine (who INT IS USER) AS SELECT r.x FROM Riders r WHERE is_new(r) AND r.who = :who",
    "CREATE CONTINUOUS CHANNEL Mine (who STRING IS ME) AS SELECT r.x FROM Riders r WHERE is_new(r) AND r.who = :who",
    "CREATE CONTINUOUS CHANNEL Late () AS SELECT p.id FROM Positions p",
    "CREATE CONTINUOUS CHANNEL Late () PERIOD 10 SECONDS AS SELECT p.id FROM Positions p WHERE is_new(p)",
    "CREATE REPETITIVE CHANNEL Late () AS SELECT p.id FROM Positions p",
    "CREATE REPETITIVE CHANNEL Late () PERIOD 10 s AS SELECT p.id FROM Positions p",
    f"{CHANNEL} AND p.line = $line",
    f"{CHANNEL} AND p.line = {{line}}",
    f"{CHANNEL} AND p.line = ?",
    f"{CHANNEL} AND p.line = :lien",
    f"{CHANNEL} AND p.lines = :line",
    f"{CHANNEL} AND p.delay_s = :line",
    f"{CHANNEL} AND p.line = :line AND p.delay_s > '60'",
    f"{CHANNEL} AND p.delay_s / 60 > :line",
    f"{CHANNEL} AND p.line = ':line'",
    f"{CHANNEL} AND p.line = :line AND p.day <> NULL",
    f"{CHANNEL} AND p.line = :line AND p.at > 'yesterday'",
    f"{CHANNEL} AND p.line = :line AND p.at > '2026-11-16T12:00:00'",
    CHANNEL,
    f"{CHANNEL} AND p.line = :line AND p.at > now() - INTERVAL 5 MINUTES",
    f"{CHANNEL} AND p.line = :line AND p.at > current_timestamp",
    f"{CHANNEL} AND p.line REGEXP :line",
    f"{CHANNEL} AND regexp_like(p.line, :line)",
    f"{CHANNEL} AND p.line LIKE :line",
    f"{CHANNEL} AND p.line = :line AND st_distance(p.x, p.y) < 10",
    f"{CHANNEL} AND lowr(p.line) = :line",
    f"{CHANNEL} AND p.line = :line AND rand() < 0.1",
    f"{CHANNEL} AND p.line = 'U1",
    f"{CHANNEL} AND p.line = 'O'Hare'",
    f"{CHANNEL} AND",
    "CREATE CONTINUOUS CHANNEL Late (line STRING) AS SELECT p.id FROM Position p WHERE is_new(p) AND p.line = :line",
    "CREATE CONTINUOUS CHANNEL Near () AS SELECT p.id FROM Positions p JOIN Riders r USING (x) WHERE is_new(p)",
    "CREATE CONTINUOUS CHANNEL Near () AS SELECT s.id FROM Stops s WHERE is_new(s)",
    "CREATE CONTINUOUS CHANNEL Near () AS SELECT id FROM Positions p JOIN Riders r ON p.x = r.x WHERE is_new(p) AND x",
    "SELECT line, count(*) FROM Positions WHERE line = 'U1' GROUP line",
    "SELECT line, count(*) FROM Positions WHERE line = U1",
    "SELECT id Positions",
    "SELECT id FROM city.Positions",
    "SELEC id FROM Positions",
    "SHOW TABLES",
    "CREATE FEED positions FROM HTTP",
    "CREATE FEED positions INTO Positions FROM KAFKA 'topic'",
    "PAUSE Late",
    "CREATE USER ann",
    "CREATE ROLE medics",
    "GRANT SELECT ON Positions TO eve",
    "GRANT SUBSCRIBE ON Late TO ALL",
    "GRANT SUBSCRIBE ON CHANNEL Late TO USER eve",
    "GRANT PUBLISH ON FEED positions TO ALL",
    "REVOKE SUBSCRIBE ON CHANNEL Late TO ALL",
    "SHOW GRANTS FOR eve",
    "FORGET ann",
    "UPDATE Riders SET x = 1 WHERE who = 'ann'",
    "DELETE FROM Riders",
    "DELETE FROM Riders WHERE whom = 'ann'",
    "DELETE FROM Riders WHERE who = NULL",
    "DELETE FROM Riders WHERE who = 5",
    "TRUNCATE Riders",
    "DROP VIEW Late",
    "ALTER DATASET Riders DROP COLUMN x",
    "ALTER CHANNEL Late SET period = 30",
    "ALTER CHANNEL Late SET (period = '30')",
    "ALTER CHANNEL Late SET (retention = '2 weeks')",
    "ALTER CHANNEL Late SET (interval = '30 seconds')",
    "CREATE OR REPLACE CHANNEL Late () AS SELECT p.id FROM Positions p WHERE is_new(p)",
    "CREATE OR REPLACE ACTIVE DATASET Lines (id STRING, PRIMARY KEY (id))",
    "CREATE OR REPLACE CONTINUOUS CHANNEL IF NOT EXISTS Late () AS SELECT p.id FROM Positions p WHERE is_new(p)",
    "ALTER CHANNEL Late ADD PARAMETER zone STRING",
    "INSERT INTO Stops SELECT * FROM Positions",
    "INSERT INTO Positions (id, delay_s) VALUES ('a', 'late')",
    "INSERT INTO Positions (id, at) VALUES ('a', now())",
    "INSERT INTO Stops VALUES ('a')",
    "LOAD DATASET Stops FROM stops.csv",
    "LOAD DATASET Stops FROM 'stops.xlsx'",
    "SHOW FEEDS;\n\nSHOW CHANELS;\nSHOW DATASETS",
]
RECORDS = [
    {"id": "a", "at": 1794816000000},
    {"id": "a", "at": "2026-11-16T12:00:00"},
    {"id": "a", "at": "16.11.2026 12:00"},
    {"id": "a", "at": "3026-11-16T12:00:00Z"},
    {"id": "a", "day": "2026-02-30"},
    {"id": "a", "delay_s": "90"},
    {"ID": "a"},
    ["a"],
]
VALUES = [
    {"line": "U1"},
    {"line": "U1", "min_delay": 5},
    {"line": 1, "min_delay_s": 5},
    {"line": "U1", "min_delay_s": -5},
]
BODIES = [
    {"name": "ann", "password": "short"},
    {"name": "ann smith", "password": "long enough"},
    {"password": "long enough"},
    {"name": "ann", "password": 12345678},
]


def answer_to_script(text: str) -> str:
    try:
        script = read_script(text)
        for at, one in enumerate(script.statements):
            try:
                check(one.statement)
            except TocsinError as error:
                script.locate(error, at, [])
                raise
    except StatementError as error:
        return described(error, error.pointed())
    except TocsinError as error:
        return described(error, error.message)
    raise AssertionError(f"nothing is wrong with {text}")


def described(error: TocsinError, message: str) -> str:
    return describe_failure(message, error.to_wire()["error"].get("script"))


def check(statement: Statement) -> None:
    match statement:
        case CreateChannel(channel):
            review_channel(channel, DATASETS)
            compile_channel(channel, DATASETS)
        case Select(sql):
            compile_select(sql, DATASETS)
        case Delete():
            review_query(statement.doomed, DATASETS)
        case Insert(dataset, columns, rows):
            records_of(DATASETS[dataset.lower()], columns, rows)


def answer_to_record(record: object) -> str:
    return reason_for_rejection(DATASETS["positions"].schema, json.dumps(record).encode(), 1000)


def answer_to_values(values: dict[str, object]) -> str:
    with pytest.raises(InvalidValue) as refused:
        check_values(DELAYS, values)
    return refused.value.message


def answer_to_body(model: type[BaseModel], body: dict[str, object]) -> str:
    with pytest.raises(ValidationError) as refused:
        model.model_validate(body)
    first = refused.value.errors()[0]
    return in_words({**first, "loc": ("body", *first["loc"])})


def test_typical_mistakes_are_answered_with_what_to_do(golden: Callable[[Path, str], None]) -> None:
    """At least fifty; nobody is left with "not allowed" alone."""
    answers = [("tocsin sql", text, answer_to_script(text)) for text in SCRIPTS]
    answers += [("a record for Positions", json.dumps(one), answer_to_record(one)) for one in RECORDS]
    answers += [("subscribe to DelaysOn", json.dumps(one), answer_to_values(one)) for one in VALUES]
    answers += [("POST /v1/users", json.dumps(one), answer_to_body(Registration, one)) for one in BODIES]
    assert len(answers) >= 50
    golden(GOLDEN, "\n".join(f"# {where}\n{typed}\n→ {answer}\n" for where, typed, answer in answers))


@pytest.mark.parametrize("text", SCRIPTS)
def test_every_statement_is_answered_with_its_place(text: str) -> None:
    """Line, column and a caret, or the row of the statement."""
    answer = answer_to_script(text)
    assert "\n" in answer or "row " in answer
    assert not answer.split("\n")[0].endswith("is not allowed in a query")
