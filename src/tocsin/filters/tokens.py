"""Words, numbers, strings and marks of a short text that people type, and errors that point into it (pure).

Filters and calls are read with it. It refuses control characters and comments. In strings a doubled quote stands for
one, and the escapes are those of Tocsin's SQL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tocsin.errors import StatementError

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)|''|\"\"", re.DOTALL)
_ESCAPES = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "t": "\t", "r": "\r"}
#: What is written with an escape.
_WRITTEN = {"\\": "\\\\", "'": "''", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_BLANKS = " \t\r\n"
_LAST_CHARACTER = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


@dataclass(frozen=True, slots=True)
class Token:
    #: `name`, `quoted` (a name in backticks), `number`, `string` or `mark`; at the end of the text, none of them.
    kind: str
    text: str
    offset: int

    @property
    def end(self) -> int:
        return self.offset + len(self.text)

    def is_mark(self, text: str) -> bool:
        return self.kind == "mark" and self.text == text

    def is_word(self, word: str) -> bool:
        """Whether it is this keyword, in any case."""
        return self.kind == "name" and self.text.upper() == word


def token_pattern(marks: str) -> re.Pattern[str]:
    """What `Tokens` looks for, if these are the marks of a language, as a regular expression."""
    return re.compile(
        rf"""\s*+(?:
          (?P<name>[A-Za-z_][A-Za-z0-9_]*)
        | (?P<quoted>`(?:[^`]|``)*`)
        | (?P<number>(?:[+-]\s*+)?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)(?![\w.])
        | (?P<string>'(?:[^'\\]|''|\\.)*'|"(?:[^"\\]|""|\\.)*")
        | (?P<mark>{marks})
        )""",
        re.VERBOSE | re.DOTALL | re.ASCII,
    )


class Tokens:
    """The tokens of a text, one after the other."""

    def __init__(self, text: str, pattern: re.Pattern[str], max_characters: int, what: str, how: str) -> None:
        self.text = text
        #: How the whole is written, for errors.
        self._how = how
        if len(text) > max_characters:
            raise StatementError(f"{what} may have {max_characters:,} characters at most, not {len(text):,}")
        self._tokens = list(self._found(pattern))
        self._index = 0

    def next(self) -> Token:
        return self.peek(0)

    def peek(self, ahead: int) -> Token:
        at = self._index + ahead
        return self._tokens[at] if at < len(self._tokens) else Token("", "", len(self.text.rstrip(_BLANKS)))

    def take(self) -> Token:
        token = self.next()
        self._index += 1
        return token

    def take_word(self, word: str) -> bool:
        """Whether the keyword comes next; then it is taken."""
        if self.next().is_word(word):
            self._index += 1
            return True
        return False

    def take_mark(self, text: str) -> Token:
        if not self.next().is_mark(text):
            raise self.error(f"expected {text}; {self._how}", self.next().offset)
        return self.take()

    def string(self, token: Token) -> str:
        """The text that a string stands for."""
        quote = token.text[0]

        def decoded(found: re.Match[str]) -> str:
            escape = found[1]
            if escape is None:
                return quote if found[0] == 2 * quote else found[0]
            offset = token.offset + 1 + found.start()
            if escape in _ESCAPES:
                return _ESCAPES[escape]
            if len(escape) == 1:
                message = r"""unknown escape in a string; allowed are \\ \' \" \n \t \r and \u with four digits"""
                raise self.error(message, offset)
            code = int(escape[1:], 16)
            if code in _SURROGATES or code > _LAST_CHARACTER:
                raise self.error(f"there is no character {escape[1:]}", offset)
            return chr(code)

        return _ESCAPE.sub(decoded, token.text[1:-1])

    def error(self, message: str, offset: int) -> StatementError:
        before = self.text[:offset]
        line, column = before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1
        # An empty text has no line to point into, and errors need one.
        return StatementError(message, text=self.text or " ", line=line, column=column)

    def _found(self, pattern: re.Pattern[str]) -> Iterator[Token]:
        if control := _CONTROL.search(self.text):
            raise self.error("control characters are not allowed", control.start())
        offset, end = 0, len(self.text.rstrip(_BLANKS))
        while offset < end:
            found = pattern.match(self.text, offset, end)
            if found is None or found.lastgroup is None:
                rest = self.text[offset:end]
                raise self._not_understood(offset + len(rest) - len(rest.lstrip(_BLANKS)))
            yield Token(found.lastgroup, found[found.lastgroup], found.start(found.lastgroup))
            offset = found.end()

    def _not_understood(self, offset: int) -> StatementError:
        begin = self.text[offset : offset + 2]
        if begin[0] in "'\"":
            return self.error("the string has no end; a quote inside a string is doubled: 'it''s'", offset)
        if begin[0] == "`":
            return self.error("the name in backticks has no end", offset)
        if begin in ("--", "/*"):
            return self.error("comments are not allowed here", offset)
        return self.error(f"not understood; {self._how}", offset)


def quoted(text: str) -> str:
    """A string as Tocsin and Spark read it back. Spark would substitute `${…}` inside of strings; not in this form."""
    written = "".join(_WRITTEN.get(one) or (one if one.isprintable() else _escaped(one)) for one in text)
    return "'" + written.replace("${", "$\\u007b") + "'"


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
