"""A dataset as it is stored: what is durable when."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest

from tocsin.cluster.datasets.store import StoredDataset
from tocsin.model.catalogue import Dataset, DatasetKind
from tocsin.model.schema import Column, ColumnType, Schema

pytestmark = pytest.mark.shell

_PATIENCE_S = 30.0


def test_rows_become_durable_by_themselves_and_dead_letters_before_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows say how far the landing log was taken in. If they outlived the dead letters, those would not come again."""
    dataset = Dataset("D", DatasetKind.ACTIVE, Schema((Column("id", ColumnType.INT, False),), ("id",)))
    stored = StoredDataset(dataset, tmp_path / "d", recent_max_bytes=1 << 20)
    order: list[str] = []
    is_done = threading.Event()
    monkeypatch.setattr(stored.dead_letters, "sync", lambda: order.append("dead letters"))
    sync_rows = stored.rows.sync

    def sync_and_note() -> int:
        order.append("rows")
        durable = sync_rows()
        is_done.set()
        return durable

    monkeypatch.setattr(stored.rows, "sync", sync_and_note)
    stored.commit(pa.table({"id": pa.array([1], pa.int32())}), {"landing": 9})
    assert is_done.wait(_PATIENCE_S)
    assert order == ["dead letters", "rows"]
    assert stored.rows.durable == 1
