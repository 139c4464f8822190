"""What to write instead of the refused constructs that people commonly try (pure).

Each entry names what does the work and, where it is not obvious, why the construct is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_SAME_AGAIN = "a repeated run must give the same results"
_TIME = f"{_SAME_AGAIN}; is_new(dataset) selects new rows, or compare with a time that the records carry"
_CHANCE = f"{_SAME_AGAIN}; let the publisher put such a value into the record"
_PATTERN = "a bad pattern stalls a run; use LIKE, contains, startswith, endswith or split_part"
_MUCH = "it makes many rows out of one; publish one record for each element"
_OUTSIDE = "it reads from outside the query; put the values into a dataset and join that"
_WHO = "a run is for all subscribers at once; declare (name STRING IS USER), which is the subscriber's user name"
_LAMBDA = (
    "functions that take functions are not allowed; use array_contains, array_max and the like, or publish flat records"
)
_FAILS = "it makes runs fail; use WHERE to leave rows out"
_PLANE = "use distance(ax, ay, bx, by) and within(ax, ay, bx, by, radius), in the units of the columns"

_ON_FUNCTIONS = {
    name: advice
    for names, advice in {
        """now current_timestamp current_date current_time localtimestamp curdate getdate sysdate unix_timestamp today
        current_timezone""": _TIME,
        "rand random randn uuid shuffle monotonically_increasing_id newid gen_random_uuid randstr": _CHANCE,
        """regexp regexp_like regexp_extract regexp_extract_all regexp_replace regexp_count regexp_instr regexp_substr
        rlike split similar_to""": _PATTERN,
        "repeat space sequence array_repeat explode explode_outer posexplode inline stack flatten": _MUCH,
        """reflect java_method input_file_name current_database current_schema current_catalog version from_json
        from_csv""": _OUTSIDE,
        "current_user session_user user": _WHO,
        "transform filter aggregate reduce exists forall zip_with map_filter transform_keys transform_values": _LAMBDA,
        "raise_error assert_true": _FAILS,
        "st_distance st_dwithin st_within st_contains haversine geo_distance ST_DistanceSphere": _PLANE,
        "ilike like": "it is written as an operator: name LIKE 'fire%'",
        "isnew new": "it is called is_new(dataset)",
        "extract": "write date_part('YEAR', t), or year(t), month(t), day(t), hour(t)",
        "to_json": "the result of a channel is JSON already; select the columns",
        "string_agg listagg group_concat": "use array_join(array_sort(collect_list(x)), ',')",
    }.items()
    for name in names.lower().split()
}

#: Keys are the name of sqlglot's class and, after a dot, the argument that is set.
_ON_NODES = {
    "RegexpLike": f"regular expressions (REGEXP, RLIKE) are not allowed: {_PATTERN}",
    "RegexpILike": f"regular expressions are not allowed: {_PATTERN}",
    "SimilarTo": f"SIMILAR TO is not allowed: {_PATTERN}",
    "Parameter": "parameters are written :name; $name and @name are not allowed",
    "Placeholder.widget": "parameters are written :name; {name} is not allowed",
    "Bracket": "a[0] is not allowed: write element_at(a, 1), which counts from 1",
    "Lambda": f"x -> ... is not allowed: {_LAMBDA}",
    "Table.db": "db.table is not allowed: write only the name of a dataset; queries read nothing else",
    "Table.sample": f"TABLESAMPLE is not allowed: {_SAME_AGAIN}; use LIMIT, or a condition on a column",
    "Table.pivots": "PIVOT is not allowed: use CASE WHEN inside an aggregate",
    "Select.qualify": "QUALIFY is not allowed: put the window function into a subquery, and its test into WHERE",
    "Select.laterals": f"LATERAL VIEW is not allowed: {_MUCH}",
    "Select.hint": "hints are not allowed: Tocsin chooses how to join",
    "Select.into": "SELECT INTO is not allowed: queries change nothing; INSERT INTO and LOAD DATASET write rows",
    "Select.sort": "SORT BY is not allowed: write ORDER BY",
    "Select.cluster": "CLUSTER BY is not allowed: Tocsin chooses how to distribute",
    "Select.distribute": "DISTRIBUTE BY is not allowed: Tocsin chooses how to distribute",
    "Select.windows": "WINDOW is not allowed: write the window after OVER",
    "Join.using": "USING is not allowed: write ON a.column = b.column",
    "Join.method": "NATURAL JOIN is not allowed: write ON a.column = b.column",
    "Group.rollup": "ROLLUP is not allowed: write one channel for each grouping",
    "Group.cube": "CUBE is not allowed: write one channel for each grouping",
    "Group.grouping_sets": "GROUPING SETS is not allowed: write one channel for each grouping",
    "Group.all": "GROUP BY ALL is not allowed: name the columns",
    "With.recursive": "WITH RECURSIVE is not allowed: a run must end",
    "Dot": "a.b.c is not allowed: columns are written column or relation.column",
    "Values": "VALUES is not allowed in a query: put the rows into a REFERENCE dataset and join that",
    "Extract": "EXTRACT is not allowed: write date_part('YEAR', t), or year(t), month(t), day(t), hour(t)",
    "PropertyEQ": "x := y is not allowed: compare with =, name an output with AS",
    "Star.except_": "* EXCEPT is not allowed: name the columns",
    "Ordered.with_fill": "WITH FILL is not allowed",
    "Glob": f"GLOB is not allowed: {_PATTERN}",
}

_DATASETS = "a table is a DATASET here"
_CLASSES = "permission classes need no statement: `tocsin users add --permission NAME` puts a user into one"
_OWN = "to show each user only their own rows, declare (user_id STRING IS USER)"
_GRANT = "GRANT SUBSCRIBE ON CHANNEL name TO CLASS name (or TO ALL)"
#: How each statement is written, by its first words. Shown when an author has left something out.
_FORMS = {
    "CREATE DATASET": "CREATE ACTIVE DATASET name (column TYPE, ..., PRIMARY KEY (column, ...))",
    "CREATE FEED": "CREATE FEED name INTO dataset FROM HTTP (or FROM FOLDER 'folder')",
    "CREATE CONTINUOUS": "CREATE CONTINUOUS CHANNEL name (parameter TYPE, user_id STRING IS USER, ...) AS SELECT ...",
    "CREATE REPETITIVE": (
        "CREATE REPETITIVE CHANNEL name (parameter TYPE, user_id STRING IS USER, ...) PERIOD 10 SECONDS AS SELECT ..."
    ),
    "CREATE OR": "CREATE OR REPLACE CONTINUOUS CHANNEL name (...) AS SELECT ..., or REPETITIVE with a PERIOD",
    "CREATE PUBLISHER": "CREATE PUBLISHER name",
    "ALTER CHANNEL": "ALTER CHANNEL name SET (period = '30 seconds', retention = '2 hours')",
    "ALTER": "ALTER DATASET name ADD COLUMN column TYPE",
    "LOAD": "LOAD DATASET name FROM 'file.csv'",
    "INSERT": "INSERT INTO dataset (column, ...) VALUES (value, ...)",
    "DELETE": "DELETE FROM dataset WHERE condition",
    "FORGET": "FORGET PERSON 'name'",
    "SHOW": "SHOW DATASETS, or SHOW GRANTS ON CHANNEL name",
    "DESCRIBE": "DESCRIBE DATASET name",
    "EXPLAIN": "EXPLAIN CHANNEL name",
    "PAUSE": "PAUSE CHANNEL name",
    "RESUME": "RESUME CHANNEL name",
    "DROP": "DROP DATASET name",
    "GRANT SUBSCRIBE": _GRANT,
    "GRANT PUBLISH": "GRANT PUBLISH ON FEED name TO PUBLISHER name",
    "GRANT": f"{_GRANT}, or GRANT PUBLISH ON FEED name TO PUBLISHER name",
    "REVOKE SUBSCRIBE": "REVOKE SUBSCRIBE ON CHANNEL name FROM CLASS name (or FROM ALL)",
    "REVOKE PUBLISH": "REVOKE PUBLISH ON FEED name FROM PUBLISHER name",
    "REVOKE": "REVOKE SUBSCRIBE ON CHANNEL name FROM CLASS name, or REVOKE PUBLISH ON FEED name FROM PUBLISHER name",
}
#: Keys are the word before ("" at the beginning of a statement) and the word itself.
_ON_WORDS = {
    ("", "UPDATE"): "INSERT INTO a KEYED dataset puts a new row in place of the one with its key",
    ("", "MERGE"): "INSERT INTO a KEYED dataset puts a new row in place of the one with its key",
    ("", "UPSERT"): "INSERT INTO a KEYED dataset puts a new row in place of the one with its key",
    ("", "REPLACE"): "INSERT INTO a KEYED dataset puts a new row in place of the one with its key",
    ("", "TRUNCATE"): "DELETE FROM dataset WHERE TRUE removes all rows of a KEYED or REFERENCE dataset",
    ("", "DESC"): "write DESCRIBE",
    ("", "USE"): "there is only one catalogue",
    ("", "SET"): "settings are given when the cluster is started; see docs/reference/settings.md",
    ("", "BEGIN"): "each statement is a transaction of its own",
    ("", "COMMIT"): "each statement is a transaction of its own",
    ("", "SUBSCRIBE"): "people subscribe through a broker: `tocsin subscribe`, or the SDK",
    ("", "STOP"): "write PAUSE CHANNEL name",
    ("", "START"): "write RESUME CHANNEL name",
    ("", "COPY"): "write LOAD DATASET name FROM 'file.csv'",
    ("", "HELP"): "docs/reference/statements.md describes them",
    ("", "VALUES"): "write SELECT, or INSERT INTO dataset VALUES (...)",
    ("CREATE", "VIEW"): "views are not kept: write the query into the channel, as WITH name AS (SELECT ...)",
    ("CREATE", "TEMPORARY"): "views are not kept: write the query into the channel, as WITH name AS (SELECT ...)",
    ("CREATE", "TABLE"): f"{_DATASETS}: CREATE ACTIVE, KEYED or REFERENCE DATASET name (...)",
    ("CREATE", "DATASET"): "say which kind: CREATE ACTIVE, KEYED or REFERENCE DATASET name (...)",
    ("CREATE", "CHANNEL"): "say when it runs: CREATE CONTINUOUS CHANNEL, or CREATE REPETITIVE CHANNEL with a PERIOD",
    ("CREATE", "INDEX"): "datasets have no indexes; within() and equality joins are fast without",
    ("CREATE", "FUNCTION"): "queries call the functions listed in docs/reference/statements.md only",
    ("CREATE", "USER"): "users are registered with `tocsin users add`",
    ("CREATE", "ROLE"): _CLASSES,
    ("CREATE", "CLASS"): _CLASSES,
    ("CREATE", "GROUP"): _CLASSES,
    ("CREATE", "TRIGGER"): "a CONTINUOUS CHANNEL runs when records arrive",
    ("DROP", "VIEW"): "there are no views; a channel goes with DROP CHANNEL",
    ("DROP", "TABLE"): f"{_DATASETS}: DROP DATASET name",
    ("DROP", "USER"): "users are removed with `tocsin users remove`",
    ("SHOW", "TABLES"): f"{_DATASETS}: SHOW DATASETS",
    ("SHOW", "VIEWS"): "there are no views",
    ("SHOW", "USERS"): "users are listed with `tocsin users list`",
    ("ALTER", "TABLE"): f"{_DATASETS}: ALTER DATASET name ADD COLUMN ...",
    ("ALTER", "FEED"): "a feed is changed by DROP FEED and CREATE FEED; its records stay in the dataset",
    ("DESCRIBE", "TABLE"): f"{_DATASETS}: DESCRIBE DATASET name",
    ("LOAD", "DATA"): "write LOAD DATASET name FROM 'file.csv'",
    ("EXPLAIN", "SELECT"): "only channels are explained: EXPLAIN CHANNEL name",
    ("GRANT", "SELECT"): f"people read by subscribing: {_GRANT}",
    ("TO", "USER"): f"a grant is for a permission class: TO CLASS name, or TO ALL; {_OWN}",
    ("FROM", "USER"): f"a grant is for a permission class: FROM CLASS name, or FROM ALL; {_OWN}",
    (")", "AS"): "a REPETITIVE channel says how often it runs: PERIOD 10 SECONDS",
    ("FROM", "KAFKA"): "let a program read from Kafka and publish over HTTP",
}
_ON_TYPES = {
    name: type_
    for names, type_ in {
        "VARCHAR CHAR TEXT NVARCHAR CHARACTER UUID JSON": "STRING",
        "FLOAT REAL DECIMAL NUMERIC NUMBER FLOAT8 DOUBLE_PRECISION": "DOUBLE",
        "SMALLINT TINYINT INT4 INT32": "INT",
        "INT8 INT64 BIGSERIAL SERIAL": "BIGINT",
        "BOOL BIT": "BOOLEAN",
        "DATETIME TIMESTAMPTZ TIMESTAMP_NTZ TIME": "TIMESTAMP",
    }.items()
    for name in names.split()
}


def on_function(name: str, allowed: Iterable[str]) -> str:
    """Why a function is not allowed, and what is.

    >>> on_function("lowr", ["lower"])
    'the function lowr is not allowed in a query: the reference of statements lists the functions; did you mean lower?'
    """
    listed = "the reference of statements lists the functions"
    reason = _ON_FUNCTIONS.get(name.lower()) or listed + did_you_mean(name, allowed)
    return f"the function {name} is not allowed in a query: {reason}"


def on_unknown_column(name: str, known: Iterable[str]) -> str:
    """Follows the message that there is no such column. The author may have meant `now` without parentheses as a
    function, and a word that resembles no column as a text."""
    if reason := _ON_FUNCTIONS.get(name.lower()):
        return f"; as a function it is not allowed: {reason}"
    return did_you_mean(name, known) or f"; a text is written in quotes: '{name}'"


def on_node(kind: str, part: str = "") -> str | None:
    """Why a construct is not allowed, and what to write instead."""
    return _ON_NODES.get(f"{kind}.{part}" if part else kind)


def on_word(before: str, word: str, allowed: Iterable[str]) -> str:
    """Follows the message that a word was not expected."""
    advice = _ON_WORDS.get((before.upper(), word.upper()))
    return f"; {advice}" if advice else did_you_mean(word, allowed)


def on_form(read: str) -> str:
    """Follows a message about a statement that begins with the words `read`: how the statement is written.

    >>> on_form("PAUSE Late")
    '; write PAUSE CHANNEL name'
    """
    words = read.upper().split()
    if words[:1] == ["CREATE"] and words[1:2] and words[1] in ("ACTIVE", "KEYED", "REFERENCE"):
        words[1] = "DATASET"
    form = _FORMS.get(" ".join(words[:2])) or _FORMS.get("".join(words[:1]))
    return f"; write {form}" if form else ""


def on_type(name: str) -> str:
    instead = _ON_TYPES.get(name.upper())
    return f"; write {instead}" if instead else ""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """
    >>> did_you_mean("lien", ["line", "id"])
    '; did you mean line?'
    """
    by_lower = {one.lower(): one for one in known}
    close = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.75)
    return f"; did you mean {by_lower[close[0]]}?" if close else ""
