"""Dead letters published again: what was refused may fit by now."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from tocsin.cluster.datasets.store import StoredDataset
from tocsin.cluster.feeds.bodies import DecodedBody
from tocsin.cluster.feeds.dead_letters import in_parts
from tocsin.cluster.feeds.intake import FeedIntake
from tocsin.cluster.feeds.receipts import Receipt
from tocsin.model.catalogue import Feed, FeedSource

_BATCH_ROWS = 1000


def replay_dead_letters(stored: StoredDataset, intake: FeedIntake, chosen: ds.Expression | None) -> dict[str, Any]:
    """Publish the chosen dead letters again and take them out of the dead-letter table. Those of channels stay.

    Each goes in under a key of its own, so a crash between the two steps doubles nothing. Those that still don't
    fit become dead letters anew.
    """
    # A channel's dead letters have no place in the landing log: their records are in the dataset.
    published = pc.field("position") >= 0
    where = published if chosen is None else published & chosen
    replayed = rejected = 0
    for positions, letters in in_parts(stored.dead_letters, where, _BATCH_ROWS):
        receipts: list[Receipt] = []
        for start in range(0, letters.num_rows, _BATCH_ROWS):
            receipts += _publish_again(stored, intake, letters.slice(start, _BATCH_ROWS))
        # The letters of a position came in one commit, so all of them have been published.
        stored.dead_letters.delete(f"position IN ({', '.join(map(str, positions))})")
        anew = pc.field("position").isin([receipt.position for receipt in receipts])
        rejected += stored.dead_letters.read(where=anew, columns=["position"]).num_rows
        replayed += letters.num_rows
    return {"replayed": replayed, "accepted": replayed - rejected, "rejected": rejected}


def _publish_again(stored: StoredDataset, intake: FeedIntake, letters: pa.Table) -> list[Receipt]:
    futures = []
    for letter in letters.to_pylist():
        feed = Feed(letter["feed"], stored.dataset.name, FeedSource.HTTP)
        # A raw text with line breaks can't be: it was a line.
        body = DecodedBody(letter["raw"].encode(), 1, f"dead-letter:{letter['position']}:{letter['line']}")
        futures.append(intake.accept(feed, body))
    receipts = [future.result() for future in futures]
    intake.wait_ingested(max(receipt.end for receipt in receipts)).result()
    return receipts
