"""WebSocket text frames, as a server sends them: a short header and the text, unmasked."""

from __future__ import annotations

_TEXT = 0x81  # the last and only frame of a text message


def text_frame(text: bytes) -> bytes:
    """
    >>> text_frame(b"hi")
    b'\\x81\\x02hi'
    """
    size = len(text)
    if size < 126:
        return bytes((_TEXT, size)) + text
    if size < 1 << 16:
        return bytes((_TEXT, 126, size >> 8, size & 0xFF)) + text
    return bytes((_TEXT, 127)) + size.to_bytes(8, "big") + text


def text_of(frame: bytes) -> bytes:
    """The text inside one of our own frames.

    >>> text_of(text_frame(b"x" * 300)) == b"x" * 300
    True
    """
    return frame[{126: 4, 127: 10}.get(frame[1], 2) :]
