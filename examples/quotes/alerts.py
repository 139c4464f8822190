"""Prints alerts: when a symbol rises above or falls below a price, and when what one holds moves much."""

import argparse
from contextlib import suppress

from tocsin.client import SyncSubscriber

options = argparse.ArgumentParser(description=__doc__)
options.add_argument("--coordinator", default="http://127.0.0.1:8500")
options.add_argument("--above", action="append", default=[], metavar="SYMBOL=PRICE")
options.add_argument("--below", action="append", default=[], metavar="SYMBOL=PRICE")
options.add_argument("--moves", type=float, metavar="AT_LEAST")
options.add_argument("--user", default="tess")
given = options.parse_args()
asked = [
    (channel, {"symbol": text.partition("=")[0], "price": float(text.partition("=")[2])})
    for channel, texts in (("RisesAbove", given.above), ("FallsBelow", given.below))
    for text in texts
]
if given.moves is not None:
    asked.append(("MyMoves", {"at_least": given.moves}))  # Whose moves is not for us to say.

# A device with a name: what happens while this does not run is printed when it runs again.
who = {"user": given.user, "password": "buy low, sell high", "register": True, "device": "desk"}
with suppress(KeyboardInterrupt), SyncSubscriber(coordinator=given.coordinator, **who) as me:
    for channel, parameters in asked:
        me.subscribe(channel, parameters)
    print("waiting for", ", ".join(channel for channel, _ in asked), flush=True)
    for notification in me.notifications():
        alert = notification.payload
        gain = f", {alert['gain']:+.2f} for you" if "gain" in alert else ""
        print(f"{notification.channel}: {alert['name']} at {alert['price']:.2f}{gain} ({alert['id']})", flush=True)
