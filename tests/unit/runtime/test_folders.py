"""One process per data folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tocsin.errors import ClusterFailure
from tocsin.runtime.folders import locked_folder


def test_a_folder_is_had_by_one_at_a_time(tmp_path: Path) -> None:
    """The second is told which folder it is; when the first has ended, the folder is free."""
    folder = tmp_path / "new" / "data"
    refused = pytest.raises(ClusterFailure, match=f"the data folder {folder} is open in another process")
    with locked_folder(folder, "the data folder"), refused, locked_folder(folder, "the data folder"):
        pass
    with locked_folder(folder, "the data folder"):
        pass
