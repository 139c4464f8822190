"""Publishes quotes: a random walk that is the same for the same seed."""

import argparse
import random
from collections.abc import Iterator
from typing import Any

from tocsin.client import ClusterClient

SYMBOLS = ("ACME", "INIT", "TYRL", "WAYN")


def walk(seed: int, rounds: int) -> Iterator[list[dict[str, Any]]]:
    """Rounds of quotes, one for each symbol; all begin at 100."""
    chance = random.Random(seed)
    prices = dict.fromkeys(SYMBOLS, 100.0)
    for number in range(rounds):
        quotes = []
        for symbol, previous in prices.items():
            price = prices[symbol] = round(previous * (1 + chance.gauss(0, 0.01)), 2)
            quotes.append({"id": f"{seed}/{number}/{symbol}", "symbol": symbol, "previous": previous, "price": price})
        yield quotes


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--cluster", default="http://127.0.0.1:8600")
    options.add_argument("--token", default="", help="the publisher's, where the cluster asks for one")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--rounds", type=int, default=12)
    given = options.parse_args()
    with ClusterClient(given.cluster, token=given.token) as cluster:
        for quotes in walk(given.seed, given.rounds):
            # One round at a time: the next is sent when this one is in the table.
            cluster.publish("quotes", quotes, wait_commit=True)
        print(f"{given.rounds} rounds of {len(SYMBOLS)} quotes published")
