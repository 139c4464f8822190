"""The words and limits of the filter language, for those who read it and those who write it (pure)."""

from __future__ import annotations

from typing import Final

from tocsin.filters.tokens import quoted

#: A column of such a name is written in backticks. What Spark SQL would take for something else is among them.
# fmt: off
KEYWORDS: Final = frozenset((
    "ALL", "AND", "ANY", "ARRAY", "BETWEEN", "CASE", "CAST", "CURRENT_DATE", "CURRENT_TIME", "CURRENT_TIMESTAMP",
    "CURRENT_USER", "DATE", "DISTINCT", "DIV", "ELSE", "END", "ESCAPE", "EXISTS", "EXTRACT", "FALSE", "FROM",
    "ILIKE", "IN", "INTERVAL", "IS", "LIKE", "LOCALTIMESTAMP", "MAP", "NOT", "NULL", "OR", "REGEXP", "RLIKE",
    "SELECT", "SESSION_USER", "SOME", "STRUCT", "THEN", "TIMESTAMP", "TRIM", "TRUE", "USER", "WHEN", "WHERE",
))
# fmt: on

#: The marks of the language, as a regular expression.
MARKS: Final = r"<=>|<=|>=|<>|!=|==|[=<>(),]"

#: Brokers hold filters in memory. A list of a thousand short names has some 8,000 characters.
MAX_CHARACTERS: Final = 16_384
#: People write one to five; what is beyond is a program's, and can be several subscriptions.
MAX_PREDICATES: Final = 256
MAX_VALUES_IN_LIST: Final = 1_000
#: As in statements. The reader and the writer use three Python frames for each level.
MAX_DEPTH: Final = 32


def quoted_pattern(text: str, before: str, after: str) -> str:
    """A pattern for LIKE, as a literal: the text stands for itself.

    >>> print(quoted_pattern("100%", "", "%"))
    '100\\\\%%'
    """
    plain = "".join(f"\\{one}" if one in "\\%_" else one for one in text)
    return quoted(f"{before}{plain}{after}")
