"""Times and dates as records, subscriptions and files write them: one list of forms, one range of years (pure).

A form that is not on the list is refused rather than guessed: a number could be seconds or milliseconds, and a time
without an offset could be in any time zone.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

_OFFSET_FORM = r"(Z|[+-][0-9]{2}(:[0-5][0-9])?)"
#: RFC 3339, with a blank or `T`; offsets as PostgreSQL writes them too.
TIME_FORM = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?" + _OFFSET_FORM
DATE_FORM = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
#: Wide enough for every record of today's world, and narrow enough that milliseconds read as seconds fall outside.
FIRST_YEAR = 1900
LAST_YEAR = 2200

TIME_WORDS = "an ISO 8601 time with its offset, such as 2026-01-02T03:04:05Z or 2026-01-02T03:04:05+02:00"
DATE_WORDS = "an ISO 8601 date, such as 2026-01-02"
_RANGE = f"the year must lie between {FIRST_YEAR} and {LAST_YEAR}"

_TIME = re.compile(TIME_FORM)
_WITHOUT_OFFSET = re.compile(TIME_FORM.removesuffix(_OFFSET_FORM))
_DATE = re.compile(DATE_FORM)
_FIRST = datetime(FIRST_YEAR, 1, 1, tzinfo=UTC)
_END = datetime(LAST_YEAR + 1, 1, 1, tzinfo=UTC)
_NO_OFFSET = timedelta()
#: As Java has it, and so Spark.
_MAX_OFFSET = timedelta(hours=18)


def parse_time(value: object) -> datetime:
    """The moment that a text names, in UTC. Raises ValueError with the expected forms.

    >>> parse_time("2026-01-02T03:04:05+02:00").isoformat()
    '2026-01-02T01:04:05+00:00'
    """
    if isinstance(value, str) and _WITHOUT_OFFSET.fullmatch(value):
        raise ValueError("expected a time with its offset, such as Z or +02:00 at its end")
    if not isinstance(value, str) or not _TIME.fullmatch(value):
        raise ValueError(f"expected {TIME_WORDS}")
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        moment = None
    # Later versions of Python read 24:00 as the next day's beginning; Spark does not.
    if moment is None or value[11:13] == "24":
        raise ValueError("expected a day and a time of day that exist")
    if abs(moment.utcoffset() or _NO_OFFSET) > _MAX_OFFSET:
        raise ValueError("the offset must lie between -18:00 and +18:00")
    # Compared before the conversion to UTC, which would fail for the year 1.
    if not _FIRST <= moment < _END:
        raise ValueError(_RANGE)
    return moment.astimezone(UTC)


def parse_date(value: object) -> date:
    """Raises ValueError with the expected form."""
    if not isinstance(value, str) or not _DATE.fullmatch(value):
        raise ValueError(f"expected {DATE_WORDS}")
    try:
        day = date.fromisoformat(value)
    except ValueError:
        raise ValueError("expected a day that exists") from None
    if not FIRST_YEAR <= day.year <= LAST_YEAR:
        raise ValueError(_RANGE)
    return day
