"""What the validator finds wrong with a request, in words for the sender (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_NAME_RULE = "1 to 64 letters, digits or _ . @ ~ -"
#: Patterns for values in requests, in words.
PATTERNS_IN_WORDS = {
    r"^[A-Za-z0-9_.@~-]{1,64}$": f"must be a name of {_NAME_RULE}",
    r"^$|^[A-Za-z0-9_.@~-]{1,64}$": f"must be empty, or a name of {_NAME_RULE}",
    r"^[A-Za-z0-9_.@~-]{1,64}/[A-Za-z0-9_.@~-]{1,64}$": f"must be USER/DEVICE, each of {_NAME_RULE}",
}
#: Keys are the validator's names of errors; its context fills the braces.
_WORDS = {
    "missing": "is missing",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries",
    "string_type": "must be a string",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be a JSON object; send it with Content-Type: application/json",
    "json_invalid": "must be JSON, and is not: {error}",
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "extra_forbidden": "is not known here",
    "enum": "must be {expected}",
    "literal_error": "must be {expected}",
}


def in_words(error: Mapping[str, Any]) -> str:
    """One error: where, and what is allowed. The given value is not repeated: it may be a password.

    >>> in_words({"type": "string_too_short", "loc": ("body", "password"), "ctx": {"min_length": 8}, "msg": "…"})
    'password: must have at least 8 characters'
    """
    path = [str(part) for part in error["loc"]]
    where = ".".join(path[1:]) or "the request's body"
    context = error.get("ctx") or {}
    if error["type"] == "string_pattern_mismatch":
        pattern = str(context.get("pattern", ""))
        what = PATTERNS_IN_WORDS.get(pattern, f"must match {pattern}")
    elif (template := _WORDS.get(error["type"])) is not None:
        what = template.format_map(_Filled(context))
    else:
        what = str(error["msg"])
    if error["type"] == "json_invalid":
        where = "the request's body"
    return f"{where}: {what}"


class _Filled(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return "the limit"
