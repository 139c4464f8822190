"""Scratch is the process's own: nobody else's files are touched, and nobody else gets in."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tocsin.cluster.scratch import fresh_scratch


def test_what_else_lies_there_stays(tmp_path: Path) -> None:
    """A scratch folder may hold anything; only what earlier processes of this cluster left is removed."""
    parent = tmp_path / "shared"
    parent.mkdir()
    (parent / "precious.txt").write_text("mine")
    other = fresh_scratch(tmp_path / "other-cluster", str(parent))
    left = fresh_scratch(tmp_path / "data", str(parent))
    (left / "spark").mkdir()
    scratch = fresh_scratch(tmp_path / "data", str(parent))
    assert sorted(parent.iterdir()) == sorted([parent / "precious.txt", other, scratch])
    assert scratch != left
    assert list(scratch.iterdir()) == []
    assert scratch.stat().st_mode & 0o777 == 0o700


def test_a_link_under_such_a_name_is_not_followed(tmp_path: Path) -> None:
    """Somebody who guesses a name and puts a link there reaches nothing through it."""
    target = tmp_path / "target"
    target.mkdir()
    (target / "precious.txt").write_text("mine")
    parent = tmp_path / "shared"
    link = fresh_scratch(tmp_path / "data", str(parent))
    link.rmdir()
    link.symlink_to(target)
    scratch = fresh_scratch(tmp_path / "data", str(parent))
    assert (target / "precious.txt").read_text() == "mine"
    assert link.is_symlink()
    assert not scratch.is_symlink()


def test_what_somebody_else_made_is_neither_used_nor_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner of a folder is looked at, not its name."""
    theirs = fresh_scratch(tmp_path / "data", str(tmp_path / "shared"))
    monkeypatch.setattr(os, "geteuid", lambda: theirs.stat().st_uid + 1)
    ours = fresh_scratch(tmp_path / "data", str(tmp_path / "shared"))
    assert theirs.is_dir()
    assert ours != theirs
