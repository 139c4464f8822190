"""Publishes dead letters again: records that were rejected may fit by now."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tocsin.cluster.datasets.store import StoredDataset
from tocsin.cluster.feeds.core.bodies import DecodedBody
from tocsin.cluster.feeds.core.receipts import Receipt
from tocsin.cluster.feeds.dead_letters import Chosen, in_parts
from tocsin.cluster.feeds.intake import FeedIntake
from tocsin.errors import InvalidValue
from tocsin.model.catalogue import Feed, FeedSource

_BATCH_ROWS = 1000


def replay_dead_letters(stored: StoredDataset, intake: FeedIntake, chosen: Chosen) -> dict[str, Any]:
    """Publish the chosen dead letters again and take them out of the dead-letter table. Those of channels stay.

    Each is published under a key of its own, so a crash between the two steps doubles nothing. Records that still don't
    fit become dead letters again.
    """
    chosen.check(stored.dead_letters, stored.dataset.name)
    if of_channels := sorted(one for one in chosen.letters or () if one.is_of_channel):
        raise InvalidValue(
            f"dead letter {of_channels[0]} is a channel's: its record is in the dataset; discard it instead"
        )
    # A channel's dead letters have no position in the landing log.
    published = pc.field("position") >= 0
    where = published if (condition := chosen.where()) is None else published & condition
    replayed = rejected = 0
    for positions, found in in_parts(stored.dead_letters, where, _BATCH_ROWS):
        letters = chosen.among(found)
        receipts: list[Receipt] = []
        for start in range(0, letters.num_rows, _BATCH_ROWS):
            receipts += _publish_again(stored, intake, letters.slice(start, _BATCH_ROWS))
        # All letters of a position came in one commit, so every chosen one has been published.
        chosen.remove(stored.dead_letters, positions)
        anew = pc.field("position").isin([receipt.position for receipt in receipts])
        rejected += stored.dead_letters.read(where=anew, columns=["position"]).num_rows
        replayed += letters.num_rows
    return {"replayed": replayed, "accepted": replayed - rejected, "rejected": rejected}


def _publish_again(stored: StoredDataset, intake: FeedIntake, letters: pa.Table) -> list[Receipt]:
    futures = []
    for letter in letters.to_pylist():
        feed = Feed(letter["feed"], stored.dataset.name, FeedSource.HTTP)
        # The raw text has no line breaks: it was one line.
        body = DecodedBody(letter["raw"].encode(), 1, f"dead-letter:{letter['position']}:{letter['line']}")
        futures.append(intake.accept(feed, body))
    receipts = [future.result() for future in futures]
    intake.wait_ingested(max(receipt.end for receipt in receipts)).result()
    return receipts
