"""`tocsin prepare`: that it prepares the right thing, and what it says where it can't."""

from __future__ import annotations

from pathlib import Path

import numba
import numpy as np
import pytest
import typer

from tocsin.cli import prepare
from tocsin.lab.benchmarks import balance
from tocsin.lab.benchmarks.balance_networks import uniform
from tocsin.runtime.class_archive import archive_of
from tocsin.runtime.java import JavaHome
from tocsin.testing.assignments import assignment


def test_loops_are_compiled_for_what_the_coordinator_gives_them() -> None:
    """A loop is compiled for the types it is called with: of others the first plan would have to wait for it again."""
    made_up = uniform(0, subscribers=10, subscriptions=5, brokers=2, each=2)
    real = assignment({"ann": ("a", "fire")}, {"fire": 2.0}, ["a", "b"])
    for name in real.__dataclass_fields__:
        if isinstance(getattr(real, name), np.ndarray):
            assert numba.typeof(getattr(made_up, name)) == numba.typeof(getattr(real, name)), name


def test_where_nothing_can_be_written_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    occupied = tmp_path / "share"
    occupied.write_text("a file, where a folder would have to be")
    monkeypatch.setattr(balance, "compile_loops", lambda: None)
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
    monkeypatch.setattr(balance, "compile_loops", lambda: None)
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
    monkeypatch.setattr(balance, "compile_loops", lambda: None)
    monkeypatch.setattr(prepare, "find_java", lambda: home)
    monkeypatch.setattr(prepare, "archive_of", lambda found: archive_of(found, tmp_path / "share"))
    monkeypatch.setattr(prepare, "_try_out", lambda *_: None)
    with pytest.raises(typer.Exit):
        prepare.run_prepare()
    assert not archive.exists()
