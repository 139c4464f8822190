"""FORGET PERSON: removes a person's name from datasets, dead letters, results, subscriptions and their files.

A row names a person if one of its texts is the name, a result if its JSON has the name as a value, a subscription if
one of its values is the name. A name inside a longer text is not found: nobody could tell whose it is. A dead letter
may be invalid JSON: it names a person if the name is a word of it.
"""

from __future__ import annotations

import json
import re
import time

import pyarrow as pa
import pyarrow.compute as pc

from tocsin.cluster.cluster import Cluster
from tocsin.cluster.datasets.store import StoredDataset
from tocsin.cluster.datasets.tables import Table
from tocsin.errors import Unavailable
from tocsin.model.catalogue import DatasetKind
from tocsin.model.schema import ColumnType

#: Characters that can't be part of a user's name.
_NO_NAME = r"[^A-Za-z0-9_.@~-]"
#: How long requests that are being written may delay the landing log, and how often it is checked.
_PATIENCE_S = 10.0
_PAUSE_S = 0.05
#: Rows per deletion; each deletion rewrites the files that hold them.
_CHUNK = 1_000


def forget_person(cluster: Cluster, name: str) -> str:
    """Returns how much of each kind was removed, in words.

    Runs between two batches, so that no row on its way into a table brings anything back. The landing log's records are
    ingested first, and then removed from the log with everything before them.

    Raises CancelledError if the cluster stops before it has begun."""
    begin = cluster.intake.landing.begin_segment()
    cluster.intake.wait_ingested(begin).result()
    as_json = json.dumps(name, ensure_ascii=False)
    with cluster.statement_lock, cluster.ingestion.batch_lock:
        rows = {stored.dataset.name: _forget_rows(stored, name) for stored in cluster.store}
        letters = sum(_forget_dead_letters(stored.dead_letters, name) for stored in cluster.store)
        named = cluster.withdraw_subscriptions(name)
        results = cluster.results.forget([one for ids in named.values() for one in ids], as_json)
        cluster.tell_withdrawn(named)
        # While no batch runs: most readers of files wait.
        cluster.maintenance.erase_past()
        cluster.executor.views.forget_idle()
    # Others may have results that no longer hold now.
    cluster.executor.run_continuous([dataset for dataset, count in rows.items() if count])
    _erase_traces(cluster, name, begin)
    counts = {
        "row": sum(rows.values()),
        "dead letter": letters,
        "result": results,
        "subscription": sum(map(len, named.values())),
    }
    return f"removed of {name!r}: " + ", ".join(f"{n} {what}{'' if n == 1 else 's'}" for what, n in counts.items())


def _erase_traces(cluster: Cluster, name: str, begin: int) -> None:
    """Erase removed data from databases and from the landing log before `begin`, where a segment begins."""
    deadline_s = cluster.clock.monotonic_s() + _PATIENCE_S
    cluster.maintenance.release_log(again=True)
    while not cluster.intake.has_released(begin):
        # A request that had claimed its idempotency key before is still being written.
        if cluster.clock.monotonic_s() > deadline_s:
            raise Unavailable("a request still writes to the landing log; run the statement again", retry_after_s=1.0)
        time.sleep(_PAUSE_S)
        cluster.maintenance.release_log(again=True)
    cluster.intake.forget_keys_with(name)
    cluster.erase_free_pages()


def _forget_rows(stored: StoredDataset, name: str) -> int:
    texts = [column.name for column in stored.dataset.schema if column.type is ColumnType.STRING]
    if not texts:
        return 0
    # In files that delta-rs has rewritten, texts have a type that Arrow can't compare without a cast.
    condition = pc.field(texts[0]).cast(pa.string()) == name
    for text in texts[1:]:
        condition = condition | (pc.field(text).cast(pa.string()) == name)
    # Including replaced rows of a keyed dataset: the table still has them.
    count: int = stored.rows.read(where=condition, columns=texts[:1]).num_rows
    if not count:
        return 0
    if stored.dataset.kind is DatasetKind.KEYED:
        _, living = stored.living()
        count = living.filter(condition).num_rows
        stored.delete_keys(living.filter(condition))
    else:
        quoted = name.replace("'", "''")
        stored.rows.delete(" OR ".join(f"`{text}` = '{quoted}'" for text in texts))
        stored.rows.sync()
    return count


def _forget_dead_letters(letters: Table, name: str) -> int:
    forms = "|".join(sorted({re.escape(name), re.escape(json.dumps(name)[1:-1])}))
    pattern = rf"(^|{_NO_NAME})({forms})($|{_NO_NAME})"
    named = pc.match_substring_regex(pc.field("raw").cast(pa.string()), pattern)
    found = letters.read(where=named, columns=["position", "line"])
    for start in range(0, found.num_rows, _CHUNK):
        chunk = found.slice(start, _CHUNK).to_pylist()
        conditions = (f"(position = {one['position']} AND line = {one['line']})" for one in chunk)
        letters.delete(" OR ".join(conditions))
    if found.num_rows:
        letters.sync()
    return int(found.num_rows)
