"""ALTER CHANNEL: another period and another retention, while subscribers go on."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import httpx

from integration.live import Live
from tocsin.cluster.database import open_catalogue
from tocsin.cluster.datasets.catalogue import Catalogue


def test_another_period_loses_and_repeats_nothing(live: Live) -> None:
    """It takes effect without waiting for the old period, whatever runs meanwhile, and a later process has it too."""
    live.sql("""
        CREATE ACTIVE DATASET AlTicks (id INT, PRIMARY KEY (id));
        CREATE FEED al_ticks INTO AlTicks FROM HTTP;
        CREATE REPETITIVE CHANNEL AlSlow () PERIOD 2 HOURS AS SELECT r.id FROM AlTicks r WHERE is_new(r);
    """)
    seat = live.broker("al-period")
    one = seat.subscribe("AlSlow")
    live.publish("al_ticks", [{"id": 0}])
    (answer,) = live.sql("ALTER CHANNEL alslow SET (period = '0.1 seconds')")
    assert answer["message"] == "channel AlSlow altered"
    assert [result["payload"]["id"] for result in seat.take(1)] == [0]
    for number in range(1, 6):
        live.publish("al_ticks", [{"id": number}])
        live.sql(f"ALTER CHANNEL AlSlow SET (period = '{'0.2' if number % 2 else '0.1'} seconds')")
    taken = seat.take(5)
    assert [result["payload"]["id"] for result in taken] == [1, 2, 3, 4, 5]
    assert {result["subscription"] for result in taken} == {one}
    assert live.channel("AlSlow")["period_s"] == 0.2
    stored = Catalogue(open_catalogue(live.cluster.settings.data_dir / "catalogue.sqlite"))
    assert stored.channel("AlSlow").period_s == 0.2
    (answer,) = live.sql("ALTER CHANNEL AlSlow SET (period = '0.2 seconds')")
    assert answer["message"] == "channel AlSlow has these values already: nothing to do"
    assert "no channel called AlNone" in live.refusal("ALTER CHANNEL AlNone SET (period = '1 hour')")["message"]


def test_channels_keep_results_for_their_own_time(serve: Callable[..., AbstractContextManager[Live]]) -> None:
    """Results of one go, those of another stay; only brokers and subscriptions that have lost some are told."""
    with serve(result_retention_s=3600) as live:
        live.sql("""
            CREATE ACTIVE DATASET AlAged (id INT, PRIMARY KEY (id));
            CREATE FEED al_aged INTO AlAged FROM HTTP;
            CREATE CONTINUOUS CHANNEL AlBrief () AS SELECT r.id FROM AlAged r WHERE is_new(r);
            CREATE CONTINUOUS CHANNEL AlUsual () AS SELECT r.id FROM AlAged r WHERE is_new(r);
            ALTER CHANNEL AlBrief SET (retention = '10 minutes');
        """)
        refused = live.refusal("ALTER CHANNEL AlBrief SET (period = '10 seconds', retention = '1 hour')")["message"]
        assert "AlBrief is CONTINUOUS and has no period" in refused
        assert (live.channel("AlBrief")["retention_s"], live.channel("AlUsual")["retention_s"]) == (600, None)
        both, usual = live.broker("al-both"), live.broker("al-usual")
        start = both.cursor
        ids = {name: both.subscribe(name) for name in ("AlBrief", "AlUsual")}
        usual.subscribe("AlUsual")
        live.publish("al_aged", [{"id": 1}])
        both.take(2)
        maintenance, clock = live.cluster.maintenance, live.cluster.clock

        class Later:
            def now_us(self) -> int:
                return clock.now_us() + 1200 * 10**6

            def monotonic_s(self) -> float:
                return clock.monotonic_s() + 1200

        maintenance.retain()
        maintenance.clock = Later()
        maintenance.retain()

        def pulled(broker: str) -> httpx.Response:
            return live.http.get(f"/v1/brokers/{broker}/results", params={"after": start})

        def history(name: str) -> httpx.Response:
            return live.http.post("/v1/results", json={"after": {ids[name]: f"{ids[name]}-{start}"}})

        assert (pulled("al-usual").status_code, history("AlUsual").status_code) == (200, 200)
        assert pulled("al-usual").text == history("AlUsual").text != ""
        for gone in (pulled("al-both"), history("AlBrief")):
            assert (gone.status_code, gone.json()["error"]["code"]) == (410, "history_gone")
        earliest = int(pulled("al-both").json()["error"]["earliest"])
        assert live.client.pull("al-both", earliest)[0] == []
        live.sql("ALTER CHANNEL AlBrief SET (retention = DEFAULT)")
        live.publish("al_aged", [{"id": 2}])
        both.cursor = earliest
        both.take(2)
        maintenance.retain()
        assert [one["payload"] for one in live.client.pull("al-both", earliest)[0]] == [{"id": 2}] * 2
