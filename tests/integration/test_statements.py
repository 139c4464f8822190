"""Statements over the live API: each does all it says or nothing, and a mistake is pointed at."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from integration.live import Live

SHELTERS = "(id STRING, name STRING, x DOUBLE, opened DATE, beds INT, PRIMARY KEY (id))"


def test_every_kind_of_dataset_is_shown_and_described(live: Live) -> None:
    """SHOW and DESCRIBE tell what exists, whatever the case it is asked in."""
    live.sql("""
        CREATE ACTIVE DATASET StReports (id STRING, n INT NOT NULL, at TIMESTAMP, PRIMARY KEY (id));
        CREATE KEYED DATASET StPlaces (who STRING, x DOUBLE, PRIMARY KEY (who));
        CREATE REFERENCE DATASET StNames (id BIGINT, name STRING);
        CREATE FEED st_reports INTO StReports FROM HTTP;
        CREATE REPETITIVE CHANNEL StMany (n INT) PERIOD 1 HOURS AS
          SELECT r.id FROM StReports r WHERE is_new(r) AND r.n = :n;
    """)
    kinds = {row["dataset"]: row["kind"] for row in live.rows("SHOW DATASETS")}
    assert kinds["StReports"] == "ACTIVE"
    assert kinds["StPlaces"] == "KEYED"
    assert kinds["StNames"] == "REFERENCE"
    assert live.rows("describe dataset streports")[:2] == [
        {"column": "id", "type": "STRING", "nullable": False, "key": True},
        {"column": "n", "type": "INT", "nullable": False, "key": False},
    ]
    feed = {"feed": "st_reports", "dataset": "StReports", "source": "HTTP", "location": ""}
    assert feed in live.rows("SHOW FEEDS")
    assert {"property": "dataset", "value": "StReports"} in live.rows("DESCRIBE FEED ST_REPORTS")
    (channel,) = [row for row in live.rows("SHOW CHANNELS") if row["channel"] == "StMany"]
    assert (channel["kind"], channel["period_s"], channel["parameters"]) == ("REPETITIVE", 3600, "n INT")
    described = {row["property"]: row["value"] for row in live.rows("DESCRIBE CHANNEL StMany")}
    assert described["watches"] == "StReports"
    assert described["body"].startswith("SELECT r.id")
    live.client.register_broker("st-shown")
    assert "st-shown" in [row["broker"] for row in live.rows("SHOW BROKERS")]
    live.client.subscribe("st-shown", [{"channel": "StMany", "parameters": {"n": 1}}])
    assert {"channel": "StMany", "subscriptions": 1, "failed": 0} in live.rows("SHOW SUBSCRIPTIONS")


def test_explain_shows_the_rewritten_sql_and_the_plan(live: Live) -> None:
    """EXPLAIN CHANNEL answers the set-oriented SQL and Spark's plan for it, and leaves no view behind."""
    live.sql("""
        CREATE ACTIVE DATASET StExplained (id STRING, n INT, PRIMARY KEY (id));
        CREATE CONTINUOUS CHANNEL StExplain (n INT) AS
          SELECT r.id FROM StExplained r WHERE is_new(r) AND r.n = :n;
    """)
    before = {table.name for table in live.cluster.spark.catalog.listTables()}
    parts = {row["part"]: row["text"] for row in live.rows("EXPLAIN CHANNEL StExplain")}
    assert "subscriptions" in parts["sql"]
    assert "new_StExplained" in parts["sql"]
    assert "Physical Plan" in parts["plan"]
    assert {table.name for table in live.cluster.spark.catalog.listTables()} <= before


def test_insert_goes_into_the_table_and_through_channels(live: Live) -> None:
    """INSERT answers once its rows are in the table; columns left out are NULL, and channels see the rows."""
    live.sql("""
        CREATE ACTIVE DATASET StInserted (id STRING, n INT, at TIMESTAMP, ok BOOLEAN, PRIMARY KEY (id));
        CREATE CONTINUOUS CHANNEL StInserts () AS SELECT r.id, r.at FROM StInserted r WHERE is_new(r);
    """)
    seat = live.broker("st-insert")
    seat.subscribe("StInserts")
    live.sql("INSERT INTO StInserted VALUES ('a', -1, '2026-01-02T03:04:05Z', TRUE)")
    live.sql("INSERT INTO stinserted (OK, Id) VALUES (FALSE, 'b'), (NULL, 'it''s')")
    found = live.rows("SELECT id, n, at, ok FROM StInserted ORDER BY id")
    assert [(row["id"], row["n"], row["ok"]) for row in found] == [
        ("a", -1, True),
        ("b", None, False),
        ("it's", None, None),
    ]
    assert found[0]["at"].startswith("2026-01-02T03:04:05")
    assert sorted(one["payload"]["id"] for one in seat.take(3)) == ["a", "b", "it's"]


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("INSERT INTO StStrict VALUES ('a', 'many')", "row 1: n: expected a whole number"),
        ("INSERT INTO StStrict VALUES ('a', 1), (NULL, 2)", "row 2: id: missing"),
        ("INSERT INTO StStrict (id, m) VALUES ('a', 1)", "no column m"),
        ("INSERT INTO StStrict VALUES ('a', 99999999999)", "row 1: n: expected a whole number"),
        ("INSERT INTO StStrict VALUES ('a')", "row 1 has 1 values for 2 columns"),
    ],
)
def test_a_row_that_does_not_fit_refuses_the_insert(live: Live, statement: str, words: str) -> None:
    """One bad row, and INSERT changes nothing; the error names row and column."""
    live.sql("CREATE ACTIVE DATASET IF NOT EXISTS StStrict (id STRING, n INT, PRIMARY KEY (id))")
    assert words in live.refusal(statement)["message"]
    assert live.rows("SELECT count(*) AS n FROM StStrict") == [{"n": 0}]


def test_rows_can_be_deleted_and_keys_of_reference_rows_come_once(live: Live) -> None:
    """INSERT refuses a key that is taken, and a feed makes a dead letter of it; DELETE removes rows of keyed and
    reference datasets, from memory and from the table; an active dataset keeps its rows, and says why."""
    live.sql("""
        CREATE REFERENCE DATASET StLines (id STRING, n INT, PRIMARY KEY (id));
        CREATE FEED st_lines INTO StLines FROM HTTP;
        CREATE KEYED DATASET StWhere (who STRING, n INT, PRIMARY KEY (who));
        CREATE ACTIVE DATASET StLasting (id STRING, PRIMARY KEY (id));
        INSERT INTO StLines VALUES ('a', 1), ('b', 2), ('c', NULL);
        INSERT INTO StWhere VALUES ('ann', 1), ('bob', 2);
        INSERT INTO StWhere VALUES ('ann', 3);
    """)
    refused = live.refusal("INSERT INTO StLines VALUES ('d', 4), ('b', 5)")["message"]
    assert refused.startswith('row 2: a row with the key {"id": "b"} exists; DELETE it first')
    answer = live.publish("st_lines", [{"id": "a"}, {"id": "e"}, {"id": "e"}])
    assert [one["line"] for one in answer["rejections"]] == [1, 3]
    (deleted,) = live.sql("DELETE FROM StLines WHERE n > 1 OR id = 'e'")
    assert deleted["message"] == "2 rows deleted from StLines"
    assert live.rows("SELECT id FROM StLines ORDER BY id") == [{"id": "a"}, {"id": "c"}]
    live.sql("INSERT INTO StLines VALUES ('b', 5)")
    (deleted,) = live.sql("DELETE FROM StWhere WHERE who = 'ann'")
    assert deleted["message"] == "1 row deleted from StWhere"
    assert live.rows("SELECT * FROM StWhere") == [{"who": "bob", "n": 2}]
    assert live.cluster.store["StWhere"].rows.read().column("who").to_pylist() == ["bob"]
    live.sql("INSERT INTO StWhere VALUES ('ann', 4)")
    assert live.rows("SELECT count(*) AS n FROM StWhere") == [{"n": 2}]
    assert "is an ACTIVE dataset" in live.refusal("DELETE FROM StLasting WHERE TRUE")["message"]
    refused = live.refusal("SHOW FEEDS;\nDELETE FROM StWhere\n  WHERE whom = 'x'")
    assert (refused["line"], refused["column"]) == (3, 9)


def test_a_person_is_forgotten_with_one_statement(live: Live) -> None:
    """Rows of every kind, dead letters, results and subscriptions that name somebody are gone, and those who hold such
    a subscription are told. What names others, or has the name inside a longer text, stays."""
    live.sql("""
        CREATE ACTIVE DATASET StSeen (id STRING, Reporter STRING, text STRING, PRIMARY KEY (id));
        CREATE FEED st_seen INTO StSeen FROM HTTP;
        CREATE KEYED DATASET StForgotten (who STRING, x DOUBLE, PRIMARY KEY (who));
        CREATE REFERENCE DATASET StHelpers (id INT, name STRING, PRIMARY KEY (id));
        CREATE CONTINUOUS CHANNEL StSeenBy (reporter STRING) AS
          SELECT s.id, s.Reporter FROM StSeen s WHERE is_new(s) AND s.Reporter = :reporter;
        CREATE CONTINUOUS CHANNEL StSeenAll () AS SELECT s.* FROM StSeen s WHERE is_new(s);
        INSERT INTO StForgotten VALUES ('zoe.o''k', 1), ('zoe', 2);
        INSERT INTO StForgotten VALUES ('zoe.o''k', 3);
        INSERT INTO StHelpers VALUES (1, 'zoe.o''k'), (2, 'zoe');
    """)
    seat = live.broker("st-forget")
    start = seat.cursor
    hers, alls = seat.subscribe("StSeenBy", reporter="zoe.o'k"), seat.subscribe("StSeenAll")
    seen = [{"id": "1", "Reporter": "zoe.o'k"}, {"id": "2", "Reporter": "zoe"}, {"id": "3", "text": "ask zoe.o'k!"}]
    live.publish("st_seen", [*seen, {"Reporter": "zoe.o'k"}, {"Reporter": "zoe"}])
    assert len(seat.take(4)) == 4
    (answer,) = live.sql("FORGET PERSON 'zoe.o''k'")
    assert answer["message"] == 'removed of "zoe.o\'k": 3 rows, 1 dead letter, 2 results, 1 subscription'
    assert [row["id"] for row in live.rows("SELECT id FROM StSeen ORDER BY id")] == ["2", "3"]
    assert live.rows("SELECT * FROM StForgotten") == [{"who": "zoe", "x": 2.0}]
    assert live.cluster.store["StForgotten"].rows.read().column("who").to_pylist() == ["zoe"]
    assert live.rows("SELECT * FROM StHelpers") == [{"id": 2, "name": "zoe"}]
    assert live.client.dead_letters("StSeen")["total"] == 1
    (end,) = seat.take(1)
    assert (end["subscription"], end["payload"]) == (
        hers,
        ["the person whom this subscription names was removed", "not_found"],
    )
    kept, _ = live.client.pull("st-forget", start)
    mine = [one["payload"] for one in kept if one["subscription"] in (hers, alls)]
    assert sorted(one["id"] for one in mine if isinstance(one, dict)) == ["2", "3"]
    (answer,) = live.sql("FORGET PERSON 'zoe.o''k'")
    assert answer["message"].endswith("0 rows, 0 dead letters, 0 results, 0 subscriptions")
    live.publish("st_seen", [{"id": "4", "Reporter": "zoe"}])
    assert [one["payload"]["id"] for one in seat.take(1)] == ["4"]
    assert seat.subscribe("StSeenBy", reporter="zoe.o'k") != hers


def test_load_reads_csv_ndjson_and_parquet(live: Live) -> None:
    """The three formats bring the same rows; a reference dataset holds what was loaded last."""
    rows = [
        {"id": "s1", "name": 'North, "old"', "x": 1.5, "opened": "2020-02-29", "beds": 10},
        {"id": "s2", "name": "South", "x": -2.0, "opened": None, "beds": None},
    ]
    (live.imports / "st.ndjson").write_text("".join(json.dumps(row) + "\n" for row in rows) + "\n")
    (live.imports / "st.csv").write_text(
        'beds,id,name,x,opened,unknown\n10, s1 ,"North, \\"old\\"",1.5,2020-02-29,?\n\n,s2,South,-2,,\n'.replace(
            " s1 ", "s1"
        )
    )
    table = pa.Table.from_pylist(rows)
    table = table.set_column(3, "opened", table.column("opened").cast(pa.date32()))
    pq.write_table(table, live.imports / "st.parquet")
    for name in ("st.ndjson", "st.csv", "st.parquet"):
        live.sql(f"DROP DATASET IF EXISTS StLoaded; CREATE REFERENCE DATASET StLoaded {SHELTERS}")
        assert live.sql(f"LOAD DATASET StLoaded FROM '{name}'")[0]["message"] == "2 rows loaded into StLoaded"
        assert live.rows("SELECT * FROM StLoaded ORDER BY id") == rows, name
    (live.imports / "st2.ndjson").write_text('{"id": "s9"}\n')
    live.sql("LOAD DATASET StLoaded FROM 'st2.ndjson'")
    assert live.rows("SELECT id FROM StLoaded") == [{"id": "s9"}]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("bad1.csv", "id,beds\na,1\n\nb,many\n", ["bad1.csv", "line 4", "beds", "many"]),
        ("bad2.csv", "name,beds\na,1\n", ["bad2.csv", "no column id"]),
        ("bad3.csv", "id,beds\na,1\n,2\n", ["bad3.csv", "line 3", "id: missing"]),
        ("bad4.csv", "id,x\na,Infinity\n", ["bad4.csv", "line 2", "finite"]),
        ("bad5.csv", "", ["bad5.csv", "no column id"]),
        ("bad6.csv", "id,id\na,b\n", ["bad6.csv", "twice"]),
        ("bad1.ndjson", '{"id": "a"}\n{"id": "b", "beds": "x"}\n', ["bad1.ndjson", "line 2", "beds"]),
        ("bad2.ndjson", '{"id": "a"}\n\n{"beds": 2}\n', ["bad2.ndjson", "line 3", "id: missing"]),
        ("bad3.ndjson", '{"id": "a"}\nnonsense\n', ["bad3.ndjson", "line 2"]),
        ("bad4.ndjson", '{"id": "a", "x": 1e999}\n', ["bad4.ndjson", "line 1", "finite"]),
        ("bad.parquet", "not parquet", ["bad.parquet"]),
        ("twice.csv", "id,beds\na,1\na,2\n", ["twice.csv", "more than once"]),
    ],
)
def test_a_bad_file_loads_nothing_and_is_told_by_line(live: Live, name: str, text: str, words: list[str]) -> None:
    """LOAD is all or nothing; the error names the file, the line and what is wrong there."""
    live.sql(f"CREATE REFERENCE DATASET IF NOT EXISTS StKept {SHELTERS}")
    (live.imports / "kept.csv").write_text("id\nkeep\n")
    live.sql("LOAD DATASET StKept FROM 'kept.csv'")
    (live.imports / name).write_text(text)
    message = live.refusal(f"LOAD DATASET StKept FROM '{name}'")["message"]
    assert [word for word in words if word not in message] == [], message
    assert live.rows("SELECT id FROM StKept") == [{"id": "keep"}]


def test_a_parquet_file_of_other_types_is_refused(live: Live) -> None:
    """A Parquet column whose values can't be the dataset's is an error, never silent NULLs."""
    live.sql("CREATE REFERENCE DATASET StParquet (id STRING, n INT, PRIMARY KEY (id))")
    pq.write_table(pa.table({"id": ["a", "b"], "n": ["1", "many"]}), live.imports / "types.parquet")
    assert "row 2: n: expected INT, got many" in live.refusal("LOAD DATASET StParquet FROM 'types.parquet'")["message"]
    assert live.rows("SELECT count(*) AS n FROM StParquet") == [{"n": 0}]


def test_load_stays_inside_the_import_folders(live: Live, tmp_path: Path) -> None:
    """No path, relative, absolute or through a symbolic link, reads a file outside the import folders."""
    live.sql("CREATE REFERENCE DATASET StOutside (id STRING)")
    (tmp_path / "secret.csv").write_text("id\nsecret\n")
    (live.imports / "link.csv").symlink_to(tmp_path / "secret.csv")
    (live.imports / "linked").symlink_to(tmp_path)
    (live.imports / "folder.csv").mkdir(exist_ok=True)
    up = "../" * 20
    for path in (
        str(tmp_path / "secret.csv"),
        f"{up}{str(tmp_path)[1:]}/secret.csv",
        "link.csv",
        "linked/secret.csv",
        "file://" + str(tmp_path / "secret.csv"),
        "../catalogue.sqlite.csv",
        "folder.csv",
        "missing.csv",
        "x" * 5000 + ".csv",
        "nul\0.csv",
        "https://example.com/x.csv",
        "{secret,st}.csv",
        "*.csv",
    ):
        error = live.refusal(f"LOAD DATASET StOutside FROM '{path}'")
        assert error["code"] in {"invalid_value", "statement"}, path
        assert "secret\n" not in error["message"]
    assert live.rows("SELECT count(*) AS n FROM StOutside") == [{"n": 0}]
    outside = live.cluster.settings.import_folders[0]
    (outside / "allowed.csv").write_text("id\nfine\n")
    live.sql(f"LOAD DATASET StOutside FROM '{outside / 'allowed.csv'}'")
    assert live.rows("SELECT id FROM StOutside") == [{"id": "fine"}]


def test_a_select_returns_so_many_rows_and_no_more(live: Live) -> None:
    """A SELECT gives at most `select_max_rows` rows and says when there were more."""
    live.sql("CREATE ACTIVE DATASET StMuch (n INT, PRIMARY KEY (n)); CREATE FEED st_much INTO StMuch FROM HTTP")
    live.publish("st_much", [{"n": n} for n in range(150)])
    (answer,) = live.sql("SELECT n FROM StMuch")
    assert (len(answer["rows"]), answer["truncated"]) == (100, True)
    (answer,) = live.sql("SELECT n FROM StMuch WHERE n < 100")
    assert (len(answer["rows"]), answer["truncated"]) == (100, False)
    assert live.sql("SELECT n FROM StMuch WHERE n < 0")[0]["rows"] == []


def test_a_select_can_compute(live: Live) -> None:
    """Joins, aggregates, windows and every type come back as JSON values, also those Python has no value for."""
    live.sql("CREATE REFERENCE DATASET StTypes (id STRING, d DATE, at TIMESTAMP, x DOUBLE, b BIGINT)")
    (live.imports / "types.ndjson").write_text(
        '{"id": "a", "d": "2026-01-02", "at": "2026-01-02T03:04:05.678901Z", "x": 0.1, "b": 9007199254740993}\n'
        '{"id": "b"}\n'
    )
    live.sql("LOAD DATASET StTypes FROM 'types.ndjson'")
    (row,) = live.rows("""
        SELECT t.d, t.at, t.x, t.b, CAST(t.x AS DECIMAL(10, 2)) AS dec, array(t.id, 'z') AS many,
               named_struct('k', t.b) AS st, make_date(12026, 1, 1) AS far, CAST('NaN' AS DOUBLE) AS nan
        FROM StTypes t WHERE t.id = 'a'
    """)
    assert row["d"] == "2026-01-02"
    assert row["at"] == "2026-01-02T03:04:05.678901Z"
    assert (row["x"], row["b"], row["dec"], row["many"]) == (0.1, 9007199254740993, 0.1, ["a", "z"])
    assert row["st"] == {"k": 9007199254740993}
    assert "12026" in row["far"]
    assert row["nan"] is None
    assert live.rows("SELECT count(*) AS n, max(x) AS x FROM StTypes") == [{"n": 2, "x": 0.1}]


@pytest.mark.parametrize(
    ("statement", "line", "column", "words"),
    [
        ("SELECT * FROM Nowhere", 1, 15, "Nowhere"),
        ("SHOW\n  EVERYTHING", 2, 3, "EVERYTHING"),
        ("CREATE ACTIVE DATASET StBad (id STRING,\n n MONEY, PRIMARY KEY (id))", 2, 4, "MONEY"),
        ("CREATE FEED f INTO StBad FROM SMOKE", 1, 31, "SMOKE"),
        ("SELECT nosuch(1)", 1, 8, "nosuch"),
    ],
)
def test_an_error_points_at_its_place(live: Live, statement: str, line: int, column: int, words: str) -> None:
    """A mistaken statement is answered with line and column, counted from 1, and a picture of the place."""
    error = live.refusal(statement)
    assert words in error["message"]
    assert (error["line"], error["column"]) == (line, column), error
    assert "^" in error["pointed"]


def test_a_script_stops_at_its_first_mistake(live: Live) -> None:
    """Statements before the mistake have happened, those after it have not; if one can't be read, none has."""
    create = "CREATE REFERENCE DATASET {} (id STRING);"
    live.refusal(f"{create.format('StFirst')} DROP DATASET Nowhere; {create.format('StThird')}")
    names = [row["dataset"] for row in live.rows("SHOW DATASETS")]
    assert "StFirst" in names
    assert "StThird" not in names
    live.refusal("DROP DATASET StFirst; CREATE NONSENSE")
    assert "StFirst" in [row["dataset"] for row in live.rows("SHOW DATASETS")]


def test_what_is_in_use_can_not_be_dropped(live: Live) -> None:
    """A dataset with a feed or a channel stays, and the error names them; names are taken only once."""
    live.sql("""
        CREATE ACTIVE DATASET StUsed (id STRING, PRIMARY KEY (id));
        CREATE FEED st_used INTO StUsed FROM HTTP;
        CREATE CONTINUOUS CHANNEL StUser () AS SELECT r.id FROM StUsed r WHERE is_new(r);
    """)
    error = live.refusal("DROP DATASET stused")
    assert error["code"] == "in_use"
    assert "feed st_used" in error["message"]
    assert "channel StUser" in error["message"]
    assert live.refusal("CREATE KEYED DATASET STUSED (id STRING, PRIMARY KEY (id))")["code"] == "already_exists"
    assert live.refusal("CREATE FEED ST_USED INTO StUsed FROM HTTP")["code"] == "already_exists"
    assert (
        live.refusal("CREATE CONTINUOUS CHANNEL stuser () AS SELECT r.id FROM StUsed r WHERE is_new(r)")["code"]
        == "already_exists"
    )
    assert live.refusal("CREATE FEED st_nowhere INTO Nowhere FROM HTTP")["code"] == "not_found"
    live.sql("DROP CHANNEL StUser; DROP FEED st_used; DROP DATASET StUsed")
    assert live.refusal("SELECT * FROM StUsed")["line"] == 1


def test_if_exists_and_if_not_exists_do_nothing_quietly(live: Live) -> None:
    """IF EXISTS and IF NOT EXISTS make statements that can be repeated."""
    for _ in range(2):
        live.sql("CREATE REFERENCE DATASET IF NOT EXISTS StMaybe (id STRING)")
        live.sql("CREATE FEED IF NOT EXISTS st_maybe INTO StMaybe FROM HTTP")
        live.sql("CREATE REPETITIVE CHANNEL IF NOT EXISTS StMaybeToo () PERIOD 1 HOURS AS SELECT m.id FROM StMaybe m")
        live.sql("CREATE PUBLISHER IF NOT EXISTS st_station; GRANT PUBLISH ON FEED st_maybe TO PUBLISHER st_station")
    for again in ("REFERENCE DATASET StMaybe (id STRING)", "PUBLISHER ST_STATION"):
        told = live.refusal(f"CREATE {again}")["message"]
        assert told.endswith("exists already; IF NOT EXISTS before the name leaves it as it is")
    live.sql("DROP PUBLISHER st_station")
    for _ in range(2):
        live.sql("DROP CHANNEL IF EXISTS StMaybeToo; DROP FEED IF EXISTS st_maybe; DROP DATASET IF EXISTS StMaybe")
    for kind in ("DATASET", "FEED", "CHANNEL"):
        assert live.refusal(f"DROP {kind} StMaybe")["code"] == "not_found"


def test_an_added_column_is_there_for_old_records_new_ones_and_channels(live: Live) -> None:
    """ALTER DATASET … ADD COLUMN: old rows read NULL, records come with and without it, `r.*` shows it at once."""
    live.sql("""
        CREATE ACTIVE DATASET StGrown (id STRING, PRIMARY KEY (id));
        CREATE KEYED DATASET StGrownToo (who STRING, PRIMARY KEY (who));
        CREATE FEED st_grown INTO StGrown FROM HTTP;
        CREATE FEED st_grown_too INTO StGrownToo FROM HTTP;
        CREATE CONTINUOUS CHANNEL StStar () AS SELECT r.* FROM StGrown r WHERE is_new(r);
    """)
    seat = live.broker("st-grown")
    seat.subscribe("StStar")
    live.publish("st_grown", [{"id": "old"}])
    live.publish("st_grown_too", [{"who": "old"}])
    assert seat.take(1)[0]["payload"] == {"id": "old"}
    live.sql("ALTER DATASET StGrown ADD COLUMN level INT; ALTER DATASET StGrownToo ADD COLUMN level INT")
    live.publish("st_grown", [{"id": "with", "level": 3}, {"id": "without"}])
    live.publish("st_grown_too", [{"who": "with", "level": 4}])
    assert [one["payload"] for one in seat.take(2)] == [{"id": "with", "level": 3}, {"id": "without", "level": None}]
    expected = [{"id": "old", "level": None}, {"id": "with", "level": 3}, {"id": "without", "level": None}]
    assert live.rows("SELECT id, level FROM StGrown ORDER BY id") == expected
    found = live.rows("SELECT who, level FROM StGrownToo ORDER BY who")
    assert found == [{"who": "old", "level": None}, {"who": "with", "level": 4}]
    live.sql("""
        CREATE CONTINUOUS CHANNEL StOfLevel (level INT) AS
          SELECT r.id, u.who FROM StGrown r JOIN StGrownToo u ON u.level = :level WHERE is_new(r) AND r.level > :level;
    """)
    seat.subscribe("StOfLevel", level=4)
    live.publish("st_grown", [{"id": "high", "level": 5}, {"id": "low", "level": 4}])
    assert {"id": "high", "who": "with"} in [one["payload"] for one in seat.take(3)]
    assert live.refusal("ALTER DATASET StGrown ADD COLUMN LEVEL INT")["code"] == "already_exists"
    assert "NOT NULL" in live.refusal("ALTER DATASET StGrown ADD COLUMN must INT NOT NULL")["message"]


def test_a_column_that_breaks_a_channel_is_not_added(live: Live) -> None:
    """ALTER changes everything it should or nothing: a channel that could not live with the column keeps it out."""
    live.sql("""
        CREATE ACTIVE DATASET StOne (id STRING, PRIMARY KEY (id));
        CREATE KEYED DATASET StTwo (who STRING, level INT, PRIMARY KEY (who));
        CREATE CONTINUOUS CHANNEL StBare (who STRING) AS
          SELECT r.id, level FROM StOne r JOIN StTwo u ON u.who = :who WHERE is_new(r);
    """)
    live.refusal("ALTER DATASET StOne ADD COLUMN level INT")
    assert [row["column"] for row in live.rows("DESCRIBE DATASET StOne")] == ["id"]
    seat = live.broker("st-one")
    seat.subscribe("StBare", who="me")
    live.sql("INSERT INTO StTwo VALUES ('me', 7)")
    live.sql("INSERT INTO StOne VALUES ('a')")
    assert seat.take(1)[0]["payload"] == {"id": "a", "level": 7}


def test_a_name_used_again_begins_empty(live: Live) -> None:
    """What is dropped and made anew gets nothing from before: rows, dead letters, keys, subscriptions, results."""
    create = """
        CREATE ACTIVE DATASET StAgain (id STRING, n INT, PRIMARY KEY (id));
        CREATE FEED st_again INTO StAgain FROM HTTP;
        CREATE CONTINUOUS CHANNEL StAgainAll () AS SELECT r.id FROM StAgain r WHERE is_new(r);
    """
    drop = "DROP CHANNEL StAgainAll; DROP FEED st_again; DROP DATASET StAgain"
    seat = live.broker("st-again")
    for turn in range(3):
        live.sql(create)
        assert live.rows("SELECT * FROM StAgain") == [], turn
        assert live.client.dead_letters("StAgain")["total"] == 0
        subscription = seat.subscribe("StAgainAll")
        answer = live.publish("st_again", [{"id": "same", "n": turn}, {"id": "bad", "n": "x"}], key=f"{turn}")
        assert (answer["accepted"], answer["rejected"]) == (1, 1)
        again = live.publish("st_again", [{"id": "key"}], key="same key")
        assert again["accepted"] == 1
        assert [one["subscription"] for one in seat.take(2)] == [subscription] * 2
        assert live.rows("SELECT id, n FROM StAgain ORDER BY id") == [
            {"id": "key", "n": None},
            {"id": "same", "n": turn},
        ]
        live.sql(drop)
        (end,) = seat.take(1)
        assert (end["subscription"], end["payload"]) == (subscription, ["channel StAgainAll was dropped", "not_found"])


def test_statements_from_many_sides_do_not_mix(live: Live) -> None:
    """Statements that change what exists come one at a time: of ten that create the same, one does."""

    def create(number: int) -> int:
        sql = f"CREATE REFERENCE DATASET StRace (n{number} INT)"
        return live.http.post("/v1/statements", json={"sql": sql}).status_code

    with ThreadPoolExecutor(10) as pool:
        codes = sorted(pool.map(create, range(10)))
    assert codes == [200] + [409] * 9
    assert len(live.rows("DESCRIBE DATASET StRace")) == 1


def test_a_slow_select_is_ended(serve) -> None:  # type: ignore[no-untyped-def]
    """A SELECT past `select_timeout_s` is ended with an error that says so, and the cluster goes on."""
    with serve(select_timeout_s=0.5) as live:
        live.sql("CREATE ACTIVE DATASET Slow (n INT, PRIMARY KEY (n)); CREATE FEED slow INTO Slow FROM HTTP")
        live.publish("slow", [{"n": n} for n in range(2000)])
        error = live.refusal("SELECT count(*) AS n FROM Slow a CROSS JOIN Slow b CROSS JOIN Slow c CROSS JOIN Slow d")
        assert "longer than 0.5 s" in error["message"]
        assert live.http.get("/healthz").json() == {"state": "ready"}
