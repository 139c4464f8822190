"""What tables ask of delta-rs: new tables, data files, commits, and rewrites of small and old files.

Delta's own clean-up after commits is switched off everywhere: tables decide when, because the sync log must know.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Transaction, WriterProperties
from deltalake import Schema as DeltaSchema
from deltalake.transaction import AddAction

from tocsin.cluster.datasets.checksummed_files import ChecksummedFile
from tocsin.cluster.datasets.core.sync_log import FileCheck
from tocsin.errors import ClusterFailure
from tocsin.model.schema import SEQUENCE_COLUMN

#: Ten commits a second leave 6,000 log files in ten minutes; readers need only those since the last checkpoint.
_CONFIGURATION = {
    "delta.logRetentionDuration": "interval 10 minutes",
    "delta.deletedFileRetentionDuration": "interval 10 minutes",
}
NO_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)

#: Arrow verifies the checksum of each page that it reads.
CHECKED_PARQUET = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
)

#: A reader may still have a removed file open for this long.
_VACUUM_AFTER_HOURS = 1
_COMPACT_TARGET_BYTES = 128 << 20
#: The files that `compact` merges, by their entries in the Delta log.
IS_SMALL = ds.field("size_bytes") < _COMPACT_TARGET_BYTES


def create(path: Path, schema: pa.Schema) -> DeltaTable:
    return DeltaTable.create(str(path), schema=DeltaSchema.from_arrow(schema), configuration=_CONFIGURATION)


def commit(
    delta: DeltaTable, actions: Sequence[AddAction], mode: str, schema: pa.Schema, transactions: Mapping[str, int]
) -> None:
    properties = CommitProperties(app_transactions=[Transaction(app, version) for app, version in transactions.items()])
    delta.create_write_transaction(
        list(actions),
        mode,
        DeltaSchema.from_arrow(schema),
        commit_properties=properties,
        post_commithook_properties=NO_HOOKS,
    )
    # The handle does not advance by itself; a stale one takes the next commit for another writer's.
    delta.update_incremental()


def delete(delta: DeltaTable, predicate: str, transactions: Mapping[str, int]) -> None:
    """Remove the rows for which the predicate holds."""
    properties = CommitProperties(app_transactions=[Transaction(app, version) for app, version in transactions.items()])
    delta.delete(predicate, commit_properties=properties, post_commithook_properties=NO_HOOKS)
    delta.update_incremental()


def add_column(delta: DeltaTable, field: pa.Field) -> None:
    delta.alter.add_columns(list(DeltaSchema.from_arrow(pa.schema([field])).fields))
    delta.update_incremental()


def write_file(
    folder: Path, rows: pa.Table, commits: tuple[int, int], *, is_change: bool
) -> tuple[AddAction, FileCheck]:
    """A new data file of rows from these commits. Its pages carry checksums that every reader verifies, and the sync
    log has one of the whole file."""
    first, last = commits
    path = folder / f"part-{first:012d}-{uuid.uuid4().hex}.parquet"
    try:
        with closing(ChecksummedFile(path)) as target:
            pq.write_table(rows, target, compression="snappy", row_group_size=1 << 17, write_page_checksum=True)
    except OSError as exc:
        path.unlink(missing_ok=True)  # Half a file would keep a full disk full.
        raise ClusterFailure(f"commit {last} of table {folder.name} failed: {exc}") from exc
    stats = {
        "numRecords": rows.num_rows,
        "minValues": {SEQUENCE_COLUMN: first},
        "maxValues": {SEQUENCE_COLUMN: last},
        "nullCount": {SEQUENCE_COLUMN: 0},
    }
    size_bytes, now_ms = target.check.size_bytes, int(time.time() * 1000)
    return AddAction(path.name, size_bytes, {}, now_ms, is_change, json.dumps(stats)), target.check


def entries(delta: DeltaTable) -> pa.Table:
    """What the Delta log says of each data file. Without files there are no columns either."""
    return pa.table(delta.get_add_actions(flatten=True))


def live_files(delta: DeltaTable, where: ds.Expression | None = None) -> list[str]:
    """The names of the data files, or of those whose entries meet a condition."""
    found = entries(delta)
    if not found.num_rows:
        return []
    return [str(path) for path in (found if where is None else found.filter(where)).column("path").to_pylist()]


def files_after(delta: DeltaTable, commit: int) -> list[str]:
    """The names of the data files that hold rows of later commits, or may hold some."""
    found = entries(delta)
    largest = f"max.{SEQUENCE_COLUMN}"
    if not found.num_rows:
        return []
    if commit and largest in found.column_names:
        newest = pc.fill_null(found.column(largest).cast(pa.int64()), commit + 1)
        found = found.filter(pc.greater(newest, commit))
    return [str(path) for path in found.column("path").to_pylist()]


def first_commit(delta: DeltaTable) -> int | None:
    """No row is of an earlier commit; None if there are no rows. A file that does not say so may have any."""
    found = entries(delta)
    if not found.num_rows or not pc.any(pc.greater(found.column("num_records"), 0)).as_py():
        return None
    smallest = f"min.{SEQUENCE_COLUMN}"
    if smallest not in found.column_names or found.column(smallest).null_count:
        return 0
    return int(pc.min(found.column(smallest).cast(pa.int64())).as_py())


def total(delta: DeltaTable, column: str) -> int:
    """The sum of a column over all entries."""
    found = entries(delta)
    return int(pc.sum(found.column(column)).as_py() or 0) if found.num_rows else 0


def compact(delta: DeltaTable) -> None:
    """Merge the small files."""
    delta.optimize.compact(
        target_size=_COMPACT_TARGET_BYTES,
        max_concurrent_tasks=1,
        writer_properties=WriterProperties(compression="SNAPPY"),
        post_commithook_properties=NO_HOOKS,
    )


def vacuum(delta: DeltaTable) -> None:
    """Remove data files that nothing refers to."""
    delta.vacuum(
        retention_hours=_VACUUM_AFTER_HOURS,
        dry_run=False,
        enforce_retention_duration=False,
        full=True,
        post_commithook_properties=NO_HOOKS,
    )
