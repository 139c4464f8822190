"""Data folders: whether one can be used, and one process for each."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tocsin.errors import ClusterFailure, InvalidValue
from tocsin.runtime.folders import blaming_full_disk, check_usable, is_locked, locked_folder, refuse_locked


def test_a_folder_is_had_by_one_at_a_time(tmp_path: Path) -> None:
    """The second is told which folder it is; when the first has ended, the folder is free."""
    folder = tmp_path / "new" / "data"
    refused = pytest.raises(ClusterFailure, match=f"the data folder {folder} is open in another process")
    with locked_folder(folder, "the data folder"), refused, locked_folder(folder, "the data folder"):
        pass
    with locked_folder(folder, "the data folder"):
        pass


def test_whether_it_is_had_can_be_asked_and_changes_nothing(tmp_path: Path) -> None:
    """Neither is a folder made by asking, nor is one taken."""
    folder = tmp_path / "data"
    assert not is_locked(folder)
    assert not folder.exists()
    with locked_folder(folder, "the data folder"):
        assert is_locked(folder)
    assert not is_locked(folder)
    with locked_folder(folder, "the data folder"):
        pass


def test_who_would_be_refused_can_be_refused_early(tmp_path: Path) -> None:
    """In the words of the lock itself; a folder that is free, or not there, is neither refused nor made."""
    folder = tmp_path / "data"
    refuse_locked(folder, "the data folder")
    assert not folder.exists()
    refused = pytest.raises(ClusterFailure, match=f"the data folder {folder} is open in another process")
    with locked_folder(folder, "the data folder"), refused:
        refuse_locked(folder, "the data folder")


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_what_is_no_folder_is_said(tmp_path: Path, name: str) -> None:
    """A file in the way, there or further up."""
    (tmp_path / "file").touch()
    with pytest.raises(InvalidValue, match="can't be used: it is, or lies below, something that is no folder"):
        check_usable(tmp_path / name, "the data folder")
    refused = pytest.raises(InvalidValue, match="can't be used")
    with refused, locked_folder(tmp_path / name, "the data folder"):
        pass


def test_a_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It shows when something is written, and nothing of what was tried stays."""

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(InvalidValue, match=f"the data folder {tmp_path} can't be used: No space left on device"):
        check_usable(tmp_path, "the data folder")
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_blamed_for_what_fails_on_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever failed says something else, and whoever followed that advice would lose data. On a disk with room it is
    left as it was said."""

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    unreadable = ClusterFailure("broker.sqlite can't be read: disk I/O error; restore it from a backup")
    with pytest.raises(ClusterFailure, match="backup"), blaming_full_disk(tmp_path, "the data folder"):
        raise unreadable
    monkeypatch.setattr(os, "fsync", full)
    refused = pytest.raises(InvalidValue, match=r"No space left on device\. Make room there, and start again")
    with refused, blaming_full_disk(tmp_path, "the data folder"):
        raise unreadable


def test_a_usable_folder_is_made_and_left_empty(tmp_path: Path) -> None:
    """Also below folders that are not there yet."""
    check_usable(tmp_path / "new" / "data", "the data folder")
    assert list((tmp_path / "new" / "data").iterdir()) == []
