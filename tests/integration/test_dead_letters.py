"""Dead letters: nothing that was refused is lost; it can be read, and tried again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from integration.live import Live


def test_dead_letters_are_listed_newest_first(live: Live) -> None:
    """Each dead letter has its raw text, the reason, the feed and where it came from."""
    live.sql("CREATE ACTIVE DATASET DlListed (id STRING, n INT, PRIMARY KEY (id))")
    live.sql("CREATE FEED dl_listed INTO DlListed FROM HTTP")
    live.publish("dl_listed", b'{"id": "a", "n": "first"}')
    live.publish("dl_listed", b'{"id": "b"}\n{"id": "c", "n": "second"}\nthird')
    letters = live.client.dead_letters("dllisted")
    assert letters["total"] == 3
    assert [one["raw"] for one in letters["dead_letters"]] == [
        '{"id": "c", "n": "second"}',
        "third",
        '{"id": "a", "n": "first"}',
    ]
    newest = letters["dead_letters"][0]
    assert (newest["line"], newest["feed"]) == (2, "dl_listed")
    assert "expected a whole number" in newest["reason"]
    assert newest["rejected_at"].startswith("20")
    assert len(live.client.dead_letters("DlListed", limit=1)["dead_letters"]) == 1
    assert live.http.get("/v1/datasets/nowhere/dead-letters").status_code == 404


def test_letters_that_still_do_not_fit_come_back(live: Live) -> None:
    """Replaying what has not been mended loses nothing: it is a dead letter again. Those not chosen are left alone."""
    live.sql("CREATE ACTIVE DATASET DlStill (id STRING, n INT, PRIMARY KEY (id))")
    live.sql("CREATE FEED dl_still INTO DlStill FROM HTTP")
    live.publish("dl_still", b'{"id": "a", "n": "x"}\n{"id": "b", "n": 1}\n{"id": "c", "n": "y"}')
    live.publish("dl_still", b"{")
    newest, *_ = live.client.dead_letters("DlStill")["dead_letters"]
    assert live.client.replay("DlStill", [newest["position"]]) == {"replayed": 1, "accepted": 0, "rejected": 1}
    again = live.client.dead_letters("DlStill")
    assert [one["raw"] for one in again["dead_letters"]] == ["{", '{"id": "a", "n": "x"}', '{"id": "c", "n": "y"}']
    assert again["dead_letters"][0]["position"] > newest["position"]
    assert live.client.replay("DlStill", []) == {"replayed": 0, "accepted": 0, "rejected": 0}
    assert live.http.post("/v1/datasets/DlStill/dead-letters/replay").json()["rejected"] == 3
    assert live.client.dead_letters("DlStill")["total"] == 3
    assert live.rows("SELECT id FROM DlStill") == [{"id": "b"}]


def test_letters_that_fit_by_now_become_rows(serve: Callable[..., AbstractContextManager[Live]]) -> None:
    """After a limit was raised, replayed letters are rows with all they were sent with, which channels see, once."""
    record = {"id": "large", "text": "é" * 100, "level": 3}
    with serve(feed_max_record_bytes=80) as live:
        live.sql("""
            CREATE ACTIVE DATASET DlLarge (id STRING, text STRING, PRIMARY KEY (id));
            CREATE FEED dl_large INTO DlLarge FROM HTTP;
            CREATE CONTINUOUS CHANNEL DlAll () AS SELECT r.* FROM DlLarge r WHERE is_new(r);
        """)
        live.broker("dl").subscribe("DlAll")
        answer = live.publish("dl_large", [record, {"id": "small"}])
        assert (answer["accepted"], answer["rejected"]) == (1, 1)
    with serve() as live:
        live.sql("ALTER DATASET DlLarge ADD COLUMN level INT")
        assert live.client.dead_letters("DlLarge")["total"] == 1
        assert live.client.replay("DlLarge") == {"replayed": 1, "accepted": 1, "rejected": 0}
        assert live.client.dead_letters("DlLarge")["total"] == 0
        assert live.client.replay("DlLarge") == {"replayed": 0, "accepted": 0, "rejected": 0}
        assert record in live.rows("SELECT * FROM DlLarge")
        seat = live.broker("dl")
        seat.cursor = 0
        assert [one["payload"] for one in seat.take(2)] == [{"id": "small", "text": None}, record]
