"""Statements are read as the reference says, and mistakes are pointed at."""

from __future__ import annotations

import re

import pytest

from tocsin.cluster.channels.compiler.statements import (
    AlterChannel,
    AlterDatasetAddColumn,
    CreateChannel,
    CreateDataset,
    CreateFeed,
    Describe,
    Drop,
    ExplainChannel,
    FileFormat,
    GrantTo,
    Insert,
    Kind,
    Listing,
    LoadDataset,
    PauseChannel,
    ResumeChannel,
    RevokeFrom,
    Select,
    Show,
    Statement,
)
from tocsin.errors import StatementError
from tocsin.model.catalogue import Channel, ChannelKind, Dataset, DatasetKind, Feed, FeedSource, FilledBy, Parameter
from tocsin.model.grants import Action, Grant, GranteeKind
from tocsin.model.schema import Column, ColumnType, Schema
from unit.cluster.channels.emergency import parse_script, parse_statement

BODY = "SELECT r.* /* ; */ FROM R r\n  WHERE is_new(r) AND r.e = ';' -- here; too\n  AND r.p = :p"


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        (
            "CREATE ACTIVE DATASET D (id STRING, n INT NOT NULL, PRIMARY KEY (id))",
            CreateDataset(
                Dataset(
                    "D",
                    DatasetKind.ACTIVE,
                    Schema(
                        (Column("id", ColumnType.STRING, False), Column("n", ColumnType.INT, False)),
                        ("id",),
                    ),
                )
            ),
        ),
        (
            "create reference dataset if not exists Places (name String, at Timestamp, on_ date, big LONG, i INTEGER)",
            CreateDataset(
                Dataset(
                    "Places",
                    DatasetKind.REFERENCE,
                    Schema(
                        (
                            Column("name", ColumnType.STRING),
                            Column("at", ColumnType.TIMESTAMP),
                            Column("on_", ColumnType.DATE),
                            Column("big", ColumnType.BIGINT),
                            Column("i", ColumnType.INT),
                        )
                    ),
                ),
                if_not_exists=True,
            ),
        ),
        (
            "CREATE KEYED DATASET D (PRIMARY KEY (A, b), a STRING, b BIGINT, ok BOOLEAN, v DOUBLE)",
            CreateDataset(
                Dataset(
                    "D",
                    DatasetKind.KEYED,
                    Schema(
                        (
                            Column("a", ColumnType.STRING, False),
                            Column("b", ColumnType.BIGINT, False),
                            Column("ok", ColumnType.BOOLEAN),
                            Column("v", ColumnType.DOUBLE),
                        ),
                        ("a", "b"),
                    ),
                )
            ),
        ),
        ("ALTER DATASET D ADD COLUMN c INT", AlterDatasetAddColumn("D", Column("c", ColumnType.INT))),
        (
            "ALTER CHANNEL C SET (period = '1.5 minutes', Retention = '2 hours')",
            AlterChannel("C", period_s=90.0, retention_s=7200.0),
        ),
        ("ALTER CHANNEL C SET (retention = '30 DAYS')", AlterChannel("C", retention_s=30 * 86_400.0)),
        (
            f"CREATE OR REPLACE CONTINUOUS CHANNEL C (p STRING) AS {BODY}",
            CreateChannel(
                Channel("C", ChannelKind.CONTINUOUS, (Parameter("p", ColumnType.STRING),), BODY), or_replace=True
            ),
        ),
        ("ALTER CHANNEL C SET (retention = DEFAULT)", AlterChannel("C", retention_s=0.0)),
        ("CREATE FEED f INTO D FROM HTTP", CreateFeed(Feed("f", "D", FeedSource.HTTP))),
        (
            "CREATE FEED IF NOT EXISTS f INTO D FROM FOLDER '/data/in'",
            CreateFeed(Feed("f", "D", FeedSource.FOLDER, "/data/in"), if_not_exists=True),
        ),
        (
            f"CREATE REPETITIVE CHANNEL C (p STRING, r DOUBLE) PERIOD 1.5 MINUTES AS\n  {BODY}",
            CreateChannel(
                Channel(
                    "C",
                    ChannelKind.REPETITIVE,
                    (Parameter("p", ColumnType.STRING), Parameter("r", ColumnType.DOUBLE)),
                    BODY,
                    90.0,
                )
            ),
        ),
        (
            f"CREATE CONTINUOUS CHANNEL C (r DOUBLE max 50000, n INT MAX 9, p BIGINT) AS {BODY}",
            CreateChannel(
                Channel(
                    "C",
                    ChannelKind.CONTINUOUS,
                    (
                        Parameter("r", ColumnType.DOUBLE, 50000.0),
                        Parameter("n", ColumnType.INT, 9),
                        Parameter("p", ColumnType.BIGINT),
                    ),
                    BODY,
                )
            ),
        ),
        (
            f"CREATE CONTINUOUS CHANNEL IF NOT EXISTS C () AS {BODY}",
            CreateChannel(Channel("C", ChannelKind.CONTINUOUS, (), BODY), if_not_exists=True),
        ),
        ("LOAD DATASET D FROM 'x.csv'", LoadDataset("D", "x.csv", FileFormat.CSV)),
        ("LOAD DATASET D FROM '/a/b.JSONL'", LoadDataset("D", "/a/b.JSONL", FileFormat.NDJSON)),
        ("LOAD DATASET D FROM 'x' FORMAT parquet", LoadDataset("D", "x", FileFormat.PARQUET)),
        (
            "INSERT INTO D (a, b, c) VALUES (1, 'it''s', NULL), (-2.5, \"\\\"x\\\\\", true)",
            Insert("D", ("a", "b", "c"), ((1, "it's", None), (-2.5, '"x\\', True))),
        ),
        ("INSERT INTO D VALUES ('${x}')", Insert("D", None, (("${x}",),))),
        ("SELECT * FROM D -- all", Select("SELECT * FROM D")),
        ("WITH a AS (SELECT 1) SELECT * FROM a", Select("WITH a AS (SELECT 1) SELECT * FROM a")),
        *((f"SHOW {listing}", Show(listing)) for listing in Listing),
        ("DESCRIBE CHANNEL C", Describe(Kind.CHANNEL, "C")),
        ("describe dataset D", Describe(Kind.DATASET, "D")),
        ("EXPLAIN CHANNEL C", ExplainChannel("C")),
        ("PAUSE CHANNEL C", PauseChannel("C")),
        ("resume channel C;", ResumeChannel("C")),
        ("DROP FEED f", Drop(Kind.FEED, "f")),
        ("DROP CHANNEL IF EXISTS C", Drop(Kind.CHANNEL, "C", if_exists=True)),
    ],
)
def test_each_statement(text: str, statement: Statement) -> None:
    """Every form of the reference becomes its value."""
    assert parse_statement(text) == statement
    assert parse_script(f"-- first\n{text}\n;;  /* between */ {text};") == (statement, statement)


def test_a_query_is_kept_as_written() -> None:
    """Not a letter of a channel's body changes, comments and line ends included."""
    first, second = parse_script(f"CREATE CONTINUOUS CHANNEL C (p STRING) AS {BODY};\nSELECT 1")
    assert isinstance(first, CreateChannel)
    assert first.channel.body == BODY
    assert second == Select("SELECT 1")


def test_an_empty_script_has_no_statements() -> None:
    """Comments and blanks alone do nothing."""
    assert parse_script(" -- nothing\n ; /* here */ ;") == ()


@pytest.mark.parametrize(
    ("text", "excerpt", "message"),
    [
        ("CREATE DATASET D (a INT)", "DATASET", "expected one of ACTIVE, KEYED, REFERENCE, FEED"),
        ("CREATE ACTIVE DATASET D (a INT)", ")", "ACTIVE datasets need a PRIMARY KEY"),
        ("CREATE KEYED DATASET D (a INT)", ")", "KEYED datasets need a PRIMARY KEY"),
        ("CREATE REFERENCE DATASET D (a TEXT)", "TEXT", "allowed are STRING, BOOLEAN, INT, BIGINT, DOUBLE"),
        ("CREATE REFERENCE DATASET D (a DECIMAL(3, 2))", "DECIMAL", "the type DECIMAL is not allowed"),
        ("CREATE REFERENCE DATASET D (a INT, A INT)", "A INT", "the column A is given twice"),
        ("CREATE REFERENCE DATASET D (a INT, PRIMARY KEY (b))", "b", "there is no column b; there are a"),
        ("CREATE REFERENCE DATASET D (_a INT)", "_a", "begin with an underscore are reserved"),
        ("CREATE REFERENCE DATASET _D (a INT)", "_D", "begin with an underscore are reserved"),
        ("CREATE REFERENCE DATASET 9D (a INT)", "9D", "can't name a dataset; names are letters, digits"),
        ("CREATE REFERENCE DATASET `a b` (a INT)", "`a b`", "can't name a dataset"),
        (f"CREATE REFERENCE DATASET {'d' * 65} (a INT)", "ddd", "at most 64 characters"),
        ("CREATE REFERENCE DATASET D ()", ")", "can't name a column"),
        ("CREATE FEED f INTO D FROM KAFKA 'x'", "KAFKA", "expected one of HTTP, FOLDER"),
        ("CREATE FEED f INTO D FROM FOLDER x", "x", "the folder must be given in quotes"),
        ("CREATE REPETITIVE CHANNEL C () AS SELECT 1", "AS", "expected PERIOD"),
        ("CREATE REPETITIVE CHANNEL C () PERIOD 10 DAYS AS SELECT 1", "DAYS", "expected one of SECOND, SECONDS"),
        ("CREATE REPETITIVE CHANNEL C () PERIOD 0.05 SECONDS AS SELECT 1", "0.05", "between 0.1 seconds and 24 hours"),
        ("CREATE REPETITIVE CHANNEL C () PERIOD 25 HOURS AS SELECT 1", "25", "between 0.1 seconds and 24 hours"),
        ("CREATE REPETITIVE CHANNEL C () PERIOD -1 SECONDS AS SELECT 1", "-", "PERIOD needs a number"),
        ("CREATE CONTINUOUS CHANNEL C () PERIOD 1 SECOND AS SELECT 1", "PERIOD", "have no PERIOD"),
        ("CREATE CONTINUOUS CHANNEL C (p STRING, P INT) AS SELECT 1", "P INT", "the parameter P is given twice"),
        ("CREATE CONTINUOUS CHANNEL C () AS DROP TABLE x", "DROP", "a query is expected here"),
        ("ALTER DATASET D ADD COLUMN c INT NOT NULL", "c INT", "can't be NOT NULL"),
        ("CREATE OR ALTER CHANNEL C () AS SELECT 1", "ALTER", "expected REPLACE"),
        ("CREATE OR REPLACE CHANNEL C () AS SELECT 1", "CHANNEL", "expected one of REPETITIVE, CONTINUOUS"),
        ("CREATE OR REPLACE FEED f INTO D FROM HTTP", "FEED", "only channels can be replaced"),
        ("CREATE OR REPLACE CONTINUOUS CHANNEL IF NOT EXISTS C () AS SELECT 1", "IF", "contradict each other"),
        ("ALTER CHANNEL C", "C", "the statement ends too soon; expected SET"),
        ("ALTER CHANNEL C SET ()", ")", "expected one of PERIOD, RETENTION"),
        ("ALTER CHANNEL C SET (body = 'x')", "body", "expected one of PERIOD, RETENTION"),
        ("ALTER CHANNEL C SET (period = '1 hour', period = '2 hours')", "period = '2", "period is given twice"),
        ("ALTER CHANNEL C SET (period = DEFAULT)", "DEFAULT", "period needs a number and a unit in quotes"),
        ("ALTER CHANNEL C SET (period = 30)", "30", "such as '30 seconds'; units are seconds, minutes, hours, days"),
        ("ALTER CHANNEL C SET (retention = '2')", "'2'", "such as '2 hours', or DEFAULT"),
        ("ALTER CHANNEL C SET (retention = 'nan hours')", "'nan", "needs a number and a unit"),
        ("ALTER CHANNEL C SET (period = '2 days')", "'2 days'", "between 0.1 seconds and 24 hours"),
        ("ALTER CHANNEL C SET (retention = '59 seconds')", "'59", "between 1 minute and 3660 days"),
        ("ALTER CHANNEL C SET (retention = '1e300 days')", "'1e300", "between 1 minute and 3660 days"),
        ("ALTER CHANNEL C RENAME TO D", "RENAME", "expected SET (period = ..., retention = ...)"),
        ("LOAD DATASET D FROM 'x.xls'", "'x.xls'", "the format of 'x.xls' is unknown"),
        ("INSERT INTO D (a, b) VALUES (1)", "(1)", "this row has 1 values instead of 2"),
        ("INSERT INTO D VALUES (1 + 1)", "+", "expected ')'"),
        ("INSERT INTO D VALUES (now())", "now", "a value must be a string, a number, TRUE, FALSE or NULL"),
        ("INSERT INTO D VALUES (1e999)", "1e999", "not a number that can be stored"),
        ("FORGET PERSON ann", "ann", "the name must be given in quotes, such as FORGET PERSON 'ann'"),
        ("FORGET 'ann'", "'ann'", "expected PERSON"),
        ("DELETE FROM D", "D", "DELETE needs WHERE and a condition; WHERE TRUE removes all rows"),
        ("DELETE D WHERE a = 1", "D WHERE", "expected FROM"),
        ("SHOW TABLES", "TABLES", "expected one of DATASETS, FEEDS, CHANNELS, BROKERS, SUBSCRIPTIONS"),
        ("DROP TABLE x", "TABLE", "expected one of DATASET, FEED, CHANNEL"),
        ("DROP CHANNEL", "L", "the statement ends too soon"),
        ("PAUSE FEED f", "FEED", "expected CHANNEL"),
        ("PAUSE CHANNEL", "L", "the statement ends too soon; expected the name of a channel"),
        ("RESUME CHANNEL 'C'", "'C'", "can't name a channel"),
        ("RESUME CHANNEL C AFTER 10 SECONDS", "AFTER", "the statement should end before 'AFTER'"),
        ("DROP CHANNEL C now", "now", "the statement should end before 'now'"),
        ("SET x = 1", "SET", "expected one of CREATE, ALTER"),
        ("SHOW CHANNELS;\n  SHOW 'CHANNELS'", "'CHANNELS'", "expected one of DATASETS"),
        ("SELECT " + "(" * 500, "(", "nested too deeply: at most 32 levels"),
        ("SELECT 'a\\qb'", "\\qb", "unknown escape in a string"),
    ],
)
def test_mistakes_are_pointed_at(text: str, excerpt: str, message: str) -> None:
    """A refusal says what is wrong, what is allowed, and where."""
    with pytest.raises(StatementError) as refused:
        parse_script(text)
    assert message in refused.value.message
    assert refused.value.text == text
    line = text.splitlines()[refused.value.line - 1]
    assert line[refused.value.column - 1 :].startswith(excerpt)


def test_a_script_has_a_size_limit() -> None:
    """A script over 1 MiB is refused before it is read."""
    with pytest.raises(StatementError, match="too long"):
        parse_script("-" * (1 << 20) + "--")


@pytest.mark.parametrize(
    ("text", "grant"),
    [
        ("TO CLASS medics", Grant(Action.SUBSCRIBE, "C", GranteeKind.CLASS, "medics")),
        ("TO CLASS 'night shift'", Grant(Action.SUBSCRIBE, "C", GranteeKind.CLASS, "night shift")),
        ("TO CLASS ''", Grant(Action.SUBSCRIBE, "C", GranteeKind.CLASS, "")),
        ("to all", Grant(Action.SUBSCRIBE, "C", GranteeKind.ALL)),
    ],
)
def test_grants(text: str, grant: Grant) -> None:
    """What is granted is written as it is revoked."""
    assert parse_statement(f"GRANT SUBSCRIBE ON CHANNEL C {text}") == GrantTo(grant)
    revoked = text.replace("TO", "FROM").replace("to", "from")
    assert parse_statement(f"REVOKE SUBSCRIBE ON CHANNEL C {revoked}") == RevokeFrom(grant)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("GRANT SUBSCRIBE ON FEED f TO ALL", "expected CHANNEL, not 'FEED'"),
        ("GRANT PUBLISH ON FEED f TO ALL", "expected PUBLISHER, not 'ALL'"),
        ("GRANT SELECT ON CHANNEL c TO ALL", "SUBSCRIBE, PUBLISH"),
        ("REVOKE SUBSCRIBE ON CHANNEL c TO ALL", "expected FROM"),
        ("GRANT SUBSCRIBE ON CHANNEL c TO CLASS " + "k" * 256, "at most 255 characters"),
        ("SHOW GRANTS ON DATASET d", "CHANNEL, FEED"),
        ("SHOW FEEDS ON CHANNEL c", "should end before 'ON'"),
    ],
)
def test_grants_that_make_no_sense_are_refused(text: str, reason: str) -> None:
    """With what is allowed."""
    with pytest.raises(StatementError, match=re.escape(reason)):
        parse_statement(text)


def test_a_parameter_may_be_filled_in() -> None:
    """With who has connected, or with their permission class; it is shown as it is declared."""
    declared = "u STRING IS USER, c string is class, r DOUBLE MAX 5.0"
    statement = parse_statement(f"CREATE CONTINUOUS CHANNEL C ({declared}) AS {BODY}")
    assert isinstance(statement, CreateChannel)
    assert statement.channel.filled == {"u": FilledBy.USER, "c": FilledBy.CLASS}
    assert list(map(str, statement.channel.parameters)) == ["u STRING IS USER", "c STRING IS CLASS", "r DOUBLE MAX 5.0"]


@pytest.mark.parametrize(
    ("declared", "reason"),
    [
        ("p INT IS USER", "IS USER is for a STRING: write p STRING IS USER, not INT"),
        ("p STRING IS", "USER"),
        ("p STRING IS BROKER", "USER"),
        ("p STRING IS USER MAX 5", "MAX"),
    ],
)
def test_what_can_not_be_filled_in_is_refused(declared: str, reason: str) -> None:
    """With what is wrong and what is allowed."""
    with pytest.raises(StatementError, match=re.escape(reason)):
        parse_statement(f"CREATE CONTINUOUS CHANNEL C ({declared}) AS {BODY}")


@pytest.mark.parametrize(
    ("declared", "reason"),
    [
        ("p STRING MAX 5", "MAX is for numbers: INT, BIGINT, DOUBLE; p is a STRING"),
        ("p DOUBLE MAX -1", "MAX needs a number from 0 on, such as p DOUBLE MAX 50000"),
        ("p DOUBLE MAX 'x'", "MAX needs a number from 0 on"),
        ("p DOUBLE MAX NULL", "MAX needs a number from 0 on"),
        ("p DOUBLE MAX 1" + "0" * 400, "MAX needs a number from 0 on"),
        ("p INT MAX 1.5", "the MAX of p must be a whole number, as its type INT is"),
        ("p INT MAX", "a value must be a string"),
    ],
)
def test_a_maximum_that_makes_no_sense_is_refused(declared: str, reason: str) -> None:
    """With what is wrong and what is allowed."""
    with pytest.raises(StatementError, match=re.escape(reason)):
        parse_statement(f"CREATE CONTINUOUS CHANNEL C ({declared}) AS {BODY}")
