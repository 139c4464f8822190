"""What people write into `database_url` is understood or refused, and its password is shown nowhere."""

from __future__ import annotations

import pytest

from tocsin.errors import InvalidValue
from tocsin.runtime.database_address import in_one_line, is_server, read_address, shown


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_every_usual_way_to_write_it_leads_to_the_same_driver(scheme: str) -> None:
    """Passwords may hold any character, if it is written as %XX."""
    url = read_address(f"{scheme}://ann:p%40s%2Fs@db.example:6543/tocsin?sslmode=require")
    assert (url.drivername, url.password, url.host, url.port) == ("postgresql+psycopg", "p@s/s", "db.example", 6543)
    assert url.query == {"sslmode": "require"}
    assert shown(url) == "db.example:6543/tocsin"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hunter2",
        "mysql://ann:hunter2@host/name",
        "oracle+hunter2://ann@host/name",
        "postgresql:/ann:hunter2@host/name",
        "postgresql://ann:hunt@er2@host/name",
        "postgresql://a/nn:hunter2@host/name",
        "postgresql://ann:hunter2@host",
        "postgresql://ann:hunter2@host/",
        "postgresql://ann@host:hunter2/name",
        "postgresql://ann:x@host:port:hunter2@x/name",
        "postgresql://ann@host:hunter2\n/name",
    ],
)
def test_what_is_no_address_is_refused_without_being_quoted(text: str) -> None:
    """A part of a password that was taken for a host's name would be shown when that host can't be found."""
    with pytest.raises(InvalidValue, match="setting database_url: ") as raised:
        read_address(text)
    assert "hunt" not in str(raised.value)
    assert "er2" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_password_that_is_a_usual_word_hides_no_reason() -> None:
    url = read_address("postgresql://tocsin:tocsin@host/tocsin")
    assert in_one_line(OSError('database "tocsin" does not exist'), url) == 'database "tocsin" does not exist'


def test_a_server_is_told_from_a_file_however_it_is_written() -> None:
    """Only with a server may others share the database."""
    assert [is_server(one) for one in ("", "sqlite:///x", " postgresql://h/n", "postgres://h/n\n")] == [
        False,
        False,
        True,
        True,
    ]


@pytest.mark.parametrize("given", ["ann:hunter2@host/name", "ann@host/name?password=hunter2"])
def test_what_a_driver_says_is_shown_only_without_the_password(given: str) -> None:
    url = read_address(f"postgresql://{given}")
    assert in_one_line(OSError("no\n\troute  to host"), url) == "no route to host"
    for quoted in ("tried ann:hunter2@host", "host=host password=hunter2"):
        assert "hunter2" not in in_one_line(OSError(quoted), url)
    assert "hunter2" not in shown(url)
