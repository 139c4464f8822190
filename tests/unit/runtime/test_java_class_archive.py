"""Java is given the archive of Spark's classes where there is one."""

from __future__ import annotations

import shlex
from pathlib import Path

from tocsin.runtime.java import JavaHome, archive_of, archive_options

_JAVA_17 = JavaHome(Path("/opt/java"), 17, "JAVA_HOME")
_JAVA_25 = JavaHome(Path("/opt/newer"), 25, "JAVA_HOME")


def test_without_an_archive_java_is_told_nothing(tmp_path: Path) -> None:
    assert archive_options(_JAVA_17, tmp_path) == []


def test_an_archive_is_given_whole_though_its_path_has_blanks(tmp_path: Path) -> None:
    folder = tmp_path / "my tools"
    folder.mkdir()
    archive_of(_JAVA_17, folder).touch()
    (option,) = archive_options(_JAVA_17, folder)
    assert shlex.split(option) == [f"-XX:SharedArchiveFile={archive_of(_JAVA_17, folder)}"]


def test_the_archive_of_another_java_is_not_given(tmp_path: Path) -> None:
    archive_of(_JAVA_17, tmp_path).touch()
    assert archive_options(_JAVA_25, tmp_path) == []
