"""The setting `database_url`: which database it names, and how that is shown without a password."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

from tocsin.errors import InvalidValue

#: How people write PostgreSQL's scheme, and the one driver that is used.
_POSTGRESQL: Final = ("postgresql", "postgres", "postgresql+psycopg")
_DRIVER: Final = "postgresql+psycopg"
_FORM: Final = "postgresql://user:password@host:5432/name"


def read_address(text: str) -> sa.URL:
    """The address that people have written. Raises InvalidValue, without quoting it: it may hold a password."""
    text = "".join(text.split())
    scheme, separator, rest = text.partition("://")
    if not separator or scheme not in (*_POSTGRESQL, "sqlite"):
        raise InvalidValue(f"setting database_url: it has to begin with postgresql://, as in {_FORM}")
    # Otherwise a part of the password would be taken for the host's name, and shown when the host can't be found.
    if rest.partition("?")[0].count("@") > 1:
        raise InvalidValue("setting database_url: an @ in the user's name or in the password has to be written as %40")
    try:
        url = sa.make_url(text)
    except (sa.exc.ArgumentError, ValueError):
        raise InvalidValue(f"setting database_url: it can't be read; it has the form {_FORM}") from None
    if any("@" in str(part) for part in (url.host, url.port, url.database)):
        raise InvalidValue("setting database_url: a / in the user's name has to be written as %2F, an @ as %40")
    if url.get_backend_name() == "sqlite":
        return url
    if not url.database:
        raise InvalidValue(f"setting database_url: the name of the database is missing; it has the form {_FORM}")
    return url.set(drivername=_DRIVER)


def is_server(text: str) -> bool:
    """Whether a setting names a PostgreSQL database, rather than a file or nothing. Raises InvalidValue."""
    return bool(text) and read_address(text).get_backend_name() != "sqlite"


def shown(url: sa.URL) -> str:
    """Host, port and database: what helps to find a mistake, and is no secret."""
    host = url.host or url.query.get("host") or "a local socket"
    port = f":{url.port}" if url.port else ""
    return f"{host}{port}/{url.database}"


def in_one_line(reason: BaseException, url: sa.URL) -> str:
    """What a driver says, in one line and without the password."""
    # PostgreSQL quotes the statement below its message.
    message = getattr(getattr(reason, "diag", None), "message_primary", None) or reason
    text = " ".join(str(message).split())[:500]
    # A password may be a usual word, so only the places are looked at where somebody would quote an address.
    passwords = [one for one in (url.password, url.query.get("password")) if isinstance(one, str) and one]
    is_quoted = any(f":{one}@" in text or f"password={one}" in text for one in passwords)
    return "the reason is not shown, as it holds the password" if is_quoted else text
