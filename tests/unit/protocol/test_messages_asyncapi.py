"""The AsyncAPI file says what the code says: every message, every field, every default."""

from __future__ import annotations

import json
import typing
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from tocsin.protocol import messages

FILE = Path(__file__).parents[3] / "docs" / "reference" / "asyncapi.yaml"
DOCUMENT: dict[str, Any] = yaml.safe_load(FILE.read_text())
MESSAGES: dict[str, Any] = DOCUMENT["components"]["messages"]

FROM_SUBSCRIBER = {kind.__struct_config__.tag: kind for kind in typing.get_args(messages.FromSubscriber)}
FROM_BROKER = {kind.__struct_config__.tag: kind for kind in typing.get_args(messages.FromBroker)}
STRUCTS = FROM_SUBSCRIBER | FROM_BROKER
#: Only the event stream has it: a WebSocket has close frames.
STREAM_ONLY = {"close"}


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    """What a `$ref` points at, any number of times."""
    while "$ref" in schema:
        found: Any = DOCUMENT
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        schema = found
    return schema


def references(part: Any) -> list[str]:
    if isinstance(part, dict):
        return [part["$ref"]] if "$ref" in part else [one for value in part.values() for one in references(value)]
    return [one for value in part for one in references(value)] if isinstance(part, list) else []


def test_every_reference_leads_somewhere() -> None:
    """The file holds together."""
    for reference in references(DOCUMENT):
        assert resolved({"$ref": reference})


def test_every_message_is_there() -> None:
    """Nothing travels that the file does not know, and the other way round."""
    assert set(MESSAGES) - STREAM_ONLY == set(STRUCTS)
    assert set(DOCUMENT["channels"]["connect"]["messages"]) == set(STRUCTS)
    operations = DOCUMENT["operations"]
    assert {one["$ref"].rpartition("/")[2] for one in operations["hear"]["messages"]} == set(FROM_SUBSCRIBER)
    assert {one["$ref"].rpartition("/")[2] for one in operations["tell"]["messages"]} == set(FROM_BROKER)


@pytest.mark.parametrize("name", STRUCTS)
def test_fields_agree(name: str) -> None:
    """The same fields, the same of them required, the same defaults."""
    schema = resolved(MESSAGES[name]["payload"])
    fields = {field.encode_name: field for field in msgspec.structs.fields(STRUCTS[name])}
    assert set(schema["properties"]) == {"type", *fields}
    assert schema["properties"]["type"] == {"const": name}
    assert set(schema["required"]) == {"type", *(name for name, field in fields.items() if field.required)}
    for field_name, field in fields.items():
        described = resolved(schema["properties"][field_name])
        if field.default is not msgspec.NODEFAULT:
            assert described["default"] == field.default, field_name


@pytest.mark.parametrize(
    ("name", "payload"),
    [(name, one["payload"]) for name in STRUCTS for one in MESSAGES[name]["examples"]],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_examples_are_messages(name: str, payload: dict[str, Any]) -> None:
    """What the file shows can be sent, and nothing in it is misspelt: it comes back whole."""
    text = json.dumps(payload)
    decode = messages.decode_from_subscriber if name in FROM_SUBSCRIBER else messages.decode_from_broker
    message = decode(text)
    assert isinstance(message, STRUCTS[name])
    again = json.loads(messages.encode(message))
    assert again == {key: value for key, value in payload.items() if key in again}
    assert set(payload) - set(again) <= {"version"}


def test_messages_without_examples_are_none() -> None:
    """A stranger finds an example of each."""
    assert all(one["examples"] for one in MESSAGES.values())
