"""Dead letters published again: what was refused may fit by now."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from tocsin.cluster.datasets.store import StoredDataset
from tocsin.cluster.feeds.bodies import DecodedBody
from tocsin.cluster.feeds.intake import FeedIntake
from tocsin.model.catalogue import Feed, FeedSource

_BATCH_ROWS = 1000


def replay_dead_letters(stored: StoredDataset, intake: FeedIntake, chosen: ds.Expression | None) -> dict[str, Any]:
    """Publish the chosen dead letters again and take them out of the dead-letter table.

    Each goes in under a key of its own, so a crash between the two steps doubles nothing. Those that still don't
    fit become dead letters anew.
    """
    letters = stored.dead_letters.read(where=chosen)
    before = stored.dead_letters.count()
    for batch in letters.to_batches(max_chunksize=_BATCH_ROWS):
        _publish_again(stored, intake, pa.Table.from_batches([batch]))
    remaining = stored.dead_letters.count() - (before - letters.num_rows)
    return {"replayed": letters.num_rows, "accepted": letters.num_rows - remaining, "rejected": remaining}


def _publish_again(stored: StoredDataset, intake: FeedIntake, letters: pa.Table) -> None:
    receipts = []
    for letter in letters.to_pylist():
        feed = Feed(letter["feed"], stored.dataset.name, FeedSource.HTTP)
        # A raw text with line breaks can't be: it was a line.
        body = DecodedBody(letter["raw"].encode(), 1, f"dead-letter:{letter['position']}:{letter['line']}")
        receipts.append(intake.accept(feed, body).result())
    intake.wait_ingested(max(receipt.end for receipt in receipts)).result()
    for letter in letters.to_pylist():
        stored.dead_letters.delete(f"position = {letter['position']} AND line = {letter['line']}")
