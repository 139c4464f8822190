"""What docs/reference/protocol.md shows are messages that can be sent."""

from __future__ import annotations

import json
import re
import typing
from pathlib import Path

import pytest

from tocsin.errors import InvalidValue
from tocsin.protocol import messages

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "protocol.md").read_text()
BLOCKS = [json.loads(text) for text in re.findall(r"^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)]
TYPED = [
    *[block for block in BLOCKS if "type" in block],
    *map(json.loads, re.findall(r"^(?:[<>]|data:) (.*)$", PAGE, re.MULTILINE)),
]
KINDS = {
    kind.__struct_config__.tag
    for union in (messages.FromSubscriber, messages.FromBroker)
    for kind in typing.get_args(union)
}


@pytest.mark.parametrize("message", TYPED, ids=lambda message: message["type"])
def test_examples_can_be_read(message: dict[str, object]) -> None:
    """Every message on the page is one."""
    text = json.dumps(message)
    try:
        messages.decode_from_subscriber(text)
    except InvalidValue:
        messages.decode_from_broker(text)


def test_every_message_and_close_code_is_explained() -> None:
    """Nothing is left out."""
    assert {f"### `{kind}`" for kind in KINDS} <= set(PAGE.splitlines())
    assert {block["type"] for block in TYPED} >= KINDS
    for name, code in vars(messages).items():
        assert not name.startswith("CLOSE_") or f"| {code} |" in PAGE
