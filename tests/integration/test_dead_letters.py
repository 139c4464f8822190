"""Dead letters: nothing that was refused is lost; it can be read, and tried again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
from typer.testing import CliRunner

from integration.live import Live
from tocsin.cli.main import app
from tocsin.client import ServerError


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


def test_dead_letters_page_by_page_and_discarded(live: Live) -> None:
    """All are listed, each once; single ones are replayed or discarded, and what is wrongly named changes nothing."""
    live.sql("CREATE ACTIVE DATASET DlPaged (id STRING, n INT, PRIMARY KEY (id))")
    live.sql("CREATE FEED dl_paged INTO DlPaged FROM HTTP")
    live.publish("dl_paged", b"\n".join(b'{"id": "%d", "n": "x"}' % number for number in range(5)))
    client = live.client
    found, after = [], ""
    while True:
        page = client.dead_letters("DlPaged", limit=2, after=after)
        found += page["dead_letters"]
        if not (after := page["next"]):
            break
    assert [one["line"] for one in found] == [1, 2, 3, 4, 5]
    ids = [one["id"] for one in found]
    assert client.dead_letter("DlPaged", ids[2]) == [found[2]]
    assert client.discard("DlPaged", letters=ids[:2]) == 2
    assert client.replay("DlPaged", letters=[ids[2]]) == {"replayed": 1, "accepted": 0, "rejected": 1}
    assert [one["raw"] for one in client.dead_letters("DlPaged")["dead_letters"]] == [
        found[at]["raw"] for at in (2, 3, 4)
    ]
    for wrong in ({"letters": [ids[3], ids[0]]}, {"letters": ["x"]}, {}, {"all": True, "positions": [1]}, {"some": 1}):
        answer = live.http.post("/v1/datasets/DlPaged/dead-letters/discard", json=wrong)
        assert answer.status_code in (404, 422), wrong
    assert client.dead_letters("DlPaged")["total"] == 3
    with pytest.raises(ServerError, match="has no dead letter") as caught:
        client.dead_letter("DlPaged", ids[0])
    assert caught.value.code == "not_found"
    assert live.http.get("/v1/datasets/DlPaged/dead-letters?after=x").status_code == 422
    assert client.discard("DlPaged") == 3
    assert client.dead_letters("DlPaged") == {"total": 0, "dead_letters": [], "next": ""}


def test_dead_letters_from_the_command_line(live: Live) -> None:
    """List, show, mend, replay and discard, in lines that fit a terminal."""
    live.sql("CREATE ACTIVE DATASET DlTyped (id STRING, n INT, PRIMARY KEY (id))")
    live.sql("CREATE FEED dl_typed INTO DlTyped FROM HTTP")
    long = '{"id": "%s", "n": "x"}' % ("long " * 1000)
    live.publish("dl_typed", f'{{"id": "a", "n": "x"}}\n{long}'.encode())

    def run(*arguments: str, code: int = 0) -> str:
        done = CliRunner().invoke(app, ["dead-letters", *arguments, "--url", live.url])
        assert done.exit_code == code, done.output
        return done.output

    first, second = (one["id"] for one in live.client.dead_letters("DlTyped")["dead_letters"])
    listed = run("list", "DlTyped", "--limit", "1")
    assert first in listed
    assert "expected a whole number" in listed
    assert "1 shown of 2 dead letters; the next: tocsin dead-letters list DlTyped --after" in listed
    assert run("list", "DlTyped", "--raw").splitlines() == ['{"id": "a", "n": "x"}', long]
    assert long in run("show", "DlTyped", second)
    assert "0 accepted, 1 rejected" in run("replay", "DlTyped", first, code=1)
    assert "has no dead letter" in run("discard", "DlTyped", first, code=1)
    assert "has no dead letter -7:1" in run("discard", "DlTyped", "-7:1", code=1)
    assert "name the dead letters" in run("discard", "DlTyped", code=2)
    assert run("discard", "DlTyped", second) == "1 dead letter discarded\n"
    assert run("discard", "DlTyped", "--all") == "1 dead letter discarded\n"
    assert run("list", "DlTyped") == "0 dead letters\n"
