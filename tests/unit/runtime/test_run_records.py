"""The record of a run: what can't be read counts as none."""

from __future__ import annotations

from pathlib import Path

import pytest

from tocsin.runtime.run_records import ProcessRecord, RunRecord, read_record, write_record


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 100,
        b"\xff",
        b'{"run":"\xff","pid":1,"began_at_us":1}',
        b'{"run":"a","pid":-5,"began_at_us":1}',
        b'{"run":"a","pid":5,"began_at_us":1,"processes":{"b":{"url":"","pid":99999999999999999999}}}',
        b"[" * 100_000,
    ],
)
def test_a_damaged_record_counts_as_none(tmp_path: Path, content: bytes) -> None:
    """As a power cut may leave it: `tocsin up`, `status` and `down` go on as if there were none."""
    (tmp_path / "up.json").write_bytes(content)
    assert read_record(tmp_path) is None


def test_a_record_comes_back_as_it_was_written(tmp_path: Path) -> None:
    record = RunRecord("r", 5, 1, {"broker-1": ProcessRecord("http://h:1", 7)})
    write_record(tmp_path, record)
    assert read_record(tmp_path) == record
