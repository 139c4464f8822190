"""`tocsin prepare`: that it prepares the right thing, and what it says where it can't."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from tocsin.cli import prepare
from tocsin.coordinator.load import compiling
from tocsin.runtime.java import JavaHome, archive_of


def test_where_nothing_can_be_written_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    occupied = tmp_path / "share"
    occupied.write_text("a file, where a folder would have to be")
    monkeypatch.setattr(compiling, "compile_loops", lambda: None)
    monkeypatch.setattr(prepare, "find_java", lambda: JavaHome(Path("/opt/java"), 17, "JAVA_HOME"))
    monkeypatch.setattr(prepare, "archive_of", lambda java: archive_of(java, occupied / "tocsin"))
    with pytest.raises(typer.Exit):
        prepare.run_prepare()
    assert "nothing was archived" in capsys.readouterr().err


def test_a_java_that_fails_leaves_no_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\nexit 3\n")
    java.chmod(0o755)
    monkeypatch.setattr(compiling, "compile_loops", lambda: None)
    monkeypatch.setattr(prepare, "find_java", lambda: JavaHome(tmp_path, 17, "JAVA_HOME"))
    monkeypatch.setattr(prepare, "archive_of", lambda found: archive_of(found, tmp_path / "share"))
    with pytest.raises(typer.Exit):
        prepare.run_prepare()
    assert "exit status 3" in capsys.readouterr().err
    assert list((tmp_path / "share").iterdir()) == []


def test_an_archive_whose_base_is_gone_goes_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Java would refuse it at every start, and the doctor would say that all is well."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text('#!/bin/sh\nfor last do :; done\ntouch "${last#*=}"\n')
    java.chmod(0o755)
    home = JavaHome(tmp_path, 17, "JAVA_HOME")
    archive = archive_of(home, tmp_path / "share")
    archive.parent.mkdir()
    archive.touch()
    monkeypatch.setattr(compiling, "compile_loops", lambda: None)
    monkeypatch.setattr(prepare, "find_java", lambda: home)
    monkeypatch.setattr(prepare, "archive_of", lambda found: archive_of(found, tmp_path / "share"))
    monkeypatch.setattr(prepare, "_try_out", lambda *_: None)
    with pytest.raises(typer.Exit):
        prepare.run_prepare()
    assert not archive.exists()
