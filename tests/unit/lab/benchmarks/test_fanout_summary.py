"""What the fan-out benchmark makes of its rounds."""

from __future__ import annotations

from tocsin.lab.benchmarks.fanout import Round, summary


def test_the_median_round_counts() -> None:
    """One disturbed round of either side does not change the ratios."""
    ours = [Round(1000, 1.0, 2), Round(1000, 10.0, 2), Round(1000, 0.5, 2)]
    nats = [Round(1000, 2.0, 2), Round(1000, 2.0, 2), Round(1000, 20.0, 2)]
    figures = summary({"tocsin": ours, "nats": nats, "mqtt": [Round(1000, 4.0, 2)]})
    assert figures["deliveries_per_cpu_s"] == 1000
    assert figures["nats_deliveries_per_cpu_s"] == 500
    assert figures["mosquitto_deliveries_per_cpu_s"] == 250
    assert figures["ratio_to_nats"] == 2.0
    assert figures["ratio_to_mosquitto"] == 4.0


def test_without_a_peer_there_is_no_ratio() -> None:
    """A peer that is not installed leaves null, not a made-up figure."""
    figures = summary({"tocsin": [Round(1000, 1.0, 2)]})
    assert figures["ratio_to_nats"] is None
    assert figures["ratio_to_mosquitto"] is None
    assert figures["nats_deliveries_per_cpu_s"] is None
