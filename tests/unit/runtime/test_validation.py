"""What is wrong with a request, in words."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, ValidationError

from tocsin.protocol import coordination
from tocsin.runtime.validation import PATTERNS_IN_WORDS, in_words


class Body(BaseModel):
    name: Annotated[str, Field(pattern=coordination.NAME_PATTERN)] = "a"
    password: str = Field("long enough", min_length=8, max_length=20)
    limit: int = Field(1, ge=1, le=10)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"password": "short"}, "password: must have at least 8 characters"),
        ({"password": "x" * 21}, "password: must have at most 20 characters"),
        ({"password": 12345678}, "password: must be a string"),
        ({"name": "eve smith"}, "name: must be a name of 1 to 64 letters, digits or _ . @ ~ -"),
        ({"limit": 0}, "limit: must be at least 1"),
        ({"limit": "many"}, "limit: must be a whole number"),
    ],
)
def test_a_refused_value_is_named_and_not_repeated(given: dict[str, Any], words: str) -> None:
    """The field and what is allowed, without the validator's jargon and without the value, which may be a password."""
    with pytest.raises(ValidationError) as refused:
        Body.model_validate(given)
    first = refused.value.errors()[0]
    assert in_words({**first, "loc": ("body", *first["loc"])}) == words


def test_every_pattern_of_names_has_words() -> None:
    """Nobody is shown a regular expression."""
    assert coordination.NAME_PATTERN in PATTERNS_IN_WORDS
    assert f"^$|{coordination.NAME_PATTERN}" in PATTERNS_IN_WORDS
