"""Prints alerts: when a symbol rises above or falls below a price, and when what somebody holds moves much."""

import argparse
from contextlib import suppress

from tocsin.client import SyncSubscriber

options = argparse.ArgumentParser(description=__doc__)
options.add_argument("--coordinator", default="http://127.0.0.1:8500")
options.add_argument("--above", action="append", default=[], metavar="SYMBOL=PRICE")
options.add_argument("--below", action="append", default=[], metavar="SYMBOL=PRICE")
options.add_argument("--moves", action="append", default=[], metavar="OWNER=AT_LEAST")
given = options.parse_args()
asked = [
    (channel, name, text.partition("=")[0], float(text.partition("=")[2]))
    for channel, name, texts in (
        ("RisesAbove", "symbol", given.above),
        ("FallsBelow", "symbol", given.below),
        ("MyMoves", "owner", given.moves),
    )
    for text in texts
]

# A device with a name: what happens while this does not run is printed when it runs again.
who = {"user": "trader", "password": "buy low, sell high", "register": True, "device": "desk"}
with suppress(KeyboardInterrupt), SyncSubscriber(coordinator=given.coordinator, **who) as me:
    for channel, name, about, value in asked:
        me.subscribe(channel, {name: about, "at_least" if channel == "MyMoves" else "price": value})
    print("waiting for", ", ".join(f"{channel} {about} {value:g}" for channel, _, about, value in asked), flush=True)
    for notification in me.notifications():
        alert = notification.payload
        gain = f", {alert['gain']:+.2f} for you" if "gain" in alert else ""
        print(f"{notification.channel}: {alert['name']} at {alert['price']:.2f}{gain} ({alert['id']})", flush=True)
