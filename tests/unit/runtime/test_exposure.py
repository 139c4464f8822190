"""Who can reach a server."""

from __future__ import annotations

import pytest

from tocsin.errors import InvalidValue
from tocsin.runtime.exposure import check_exposure


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.5", "cluster.example"])
def test_a_server_that_others_reach_needs_a_token(host: str) -> None:
    """It is refused before it listens, with what would be allowed; whoever means it can say so."""
    with pytest.raises(InvalidValue, match=r"set api_token, .* or set open_to_network"):
        check_exposure(host, "", is_meant=False)
    check_exposure(host, "secret", is_meant=False)
    check_exposure(host, "", is_meant=True)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.1.1", "::1", "localhost"])
def test_on_one_machine_no_token_is_needed(host: str) -> None:
    """As in the tutorial."""
    check_exposure(host, "", is_meant=False)
