"""Calls: a channel and its parameter values as people type them, `EmergenciesOfType(etype => 'flood')` (pure).

Values are data: strings in single or double quotes, numbers, true and false. In strings a doubled quote stands for one,
and the escapes are those of Tocsin's SQL.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite

from tocsin.errors import StatementError
from tocsin.model.catalogue import ParameterValue

_HOW = "write Channel(name => 'text', other => 5)"
_MAX_CHARACTERS = 100_000
#: Longer whole numbers fit no parameter, and Python refuses to read those of thousands of digits.
_MAX_DIGITS = 400

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<name>[A-Za-z][A-Za-z0-9_]*)
    | (?P<number>[+-]?\s*(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)(?![\w.])
    | (?P<string>'(?:[^'\\]|''|\\.)*'|"(?:[^"\\]|""|\\.)*")
    | (?P<mark>=>|[(),])
    )""",
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_ESCAPE = re.compile(r"\\(.)|''|\"\"", re.DOTALL)
_ESCAPES = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "t": "\t", "r": "\r"}
_WRITTEN = {"\\": "\\\\", "'": "''", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    offset: int


def parse_call(text: str) -> tuple[str, dict[str, ParameterValue]]:
    """The channel and the parameter values; StatementError points at the first character that can't be read.

    >>> parse_call('EmergenciesOfType(etype => "flood")')
    ('EmergenciesOfType', {'etype': 'flood'})
    >>> parse_call("EmergenciesNear(x => -1.5, y => 2, urgent => true)")
    ('EmergenciesNear', {'x': -1.5, 'y': 2, 'urgent': True})
    >>> parse_call("Everything")
    ('Everything', {})
    """
    return _Parser(text).call()


def write_call(channel: str, parameters: Mapping[str, ParameterValue]) -> str:
    """The call as text that `parse_call` reads back.

    >>> write_call("EmergenciesOfType", {"etype": "Fisher's", "severity": 3})
    "EmergenciesOfType(etype => 'Fisher''s', severity => 3)"
    """
    return f"{channel}({', '.join(f'{name} => {_written(value)}' for name, value in parameters.items())})"


def _written(value: ParameterValue) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return "'" + "".join(_WRITTEN.get(char, char) for char in value) + "'"
        case _:
            return repr(value)


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = list(self._tokenize())
        self._index = 0

    def call(self) -> tuple[str, dict[str, ParameterValue]]:
        channel = self._take("name", "the name of a channel").text
        values: dict[str, ParameterValue] = {}
        if self._next().kind:
            self._mark("(")
            while self._next().text != ")" or self._next().kind != "mark":
                if values:
                    self._mark(",")
                name = self._take("name", "the name of a parameter")
                if name.text.lower() in {known.lower() for known in values}:
                    raise self._error(f"the parameter {name.text} is given twice", name.offset)
                self._mark("=>")
                values[name.text] = self._value()
            self._mark(")")
        if self._next().kind:
            raise self._error("nothing may follow the call", self._next().offset)
        return channel, values

    def _value(self) -> ParameterValue:
        token = self._next()
        if token.kind == "string":
            self._index += 1
            return self._string(token)
        if token.kind == "number":
            self._index += 1
            return self._number(token)
        if token.kind == "name" and token.text.lower() in {"true", "false"}:
            self._index += 1
            return token.text.lower() == "true"
        raise self._error(f"expected a string in quotes, a number, true or false; {_HOW}", token.offset)

    def _number(self, token: _Token) -> int | float:
        written = "".join(token.text.split())
        if len(written) <= _MAX_DIGITS:
            value = int(written) if written.lstrip("+-").isdigit() else float(written)
            if isfinite(value):
                return value
        raise self._error(f"{written[:40]} is not a finite number", token.offset)

    def _string(self, token: _Token) -> str:
        quote = token.text[0]

        def decoded(found: re.Match[str]) -> str:
            if found[1] is None:
                return quote if found[0] == 2 * quote else found[0]
            if found[1] not in _ESCAPES:
                message = r"""unknown escape in a string; allowed are \\ \' \" \n \t \r"""
                raise self._error(message, token.offset + 1 + found.start())
            return _ESCAPES[found[1]]

        return _ESCAPE.sub(decoded, token.text[1:-1])

    def _next(self) -> _Token:
        end = _Token("", "", len(self._text.rstrip()))
        return self._tokens[self._index] if self._index < len(self._tokens) else end

    def _take(self, kind: str, what: str) -> _Token:
        token = self._next()
        if token.kind != kind:
            raise self._error(f"expected {what}; {_HOW}", token.offset)
        self._index += 1
        return token

    def _mark(self, text: str) -> None:
        token = self._next()
        if (token.kind, token.text) != ("mark", text):
            raise self._error(f"expected {text}; {_HOW}", token.offset)
        self._index += 1

    def _tokenize(self) -> Iterator[_Token]:
        if len(self._text) > _MAX_CHARACTERS:
            raise StatementError(f"a call may have {_MAX_CHARACTERS} characters at most, not {len(self._text)}")
        if control := _CONTROL.search(self._text):
            raise self._error("control characters are not allowed", control.start())
        offset, end = 0, len(self._text.rstrip())
        while offset < end:
            found = _TOKEN.match(self._text, offset, end)
            if found is None or found.lastgroup is None:
                rest = self._text[offset:end]
                begin = offset + len(rest) - len(rest.lstrip())
                if self._text[begin] in "'\"":
                    raise self._error("the string has no end", begin)
                raise self._error(f"not understood; {_HOW}", begin)
            yield _Token(found.lastgroup, found[found.lastgroup], found.start(found.lastgroup))
            offset = found.end()

    def _error(self, message: str, offset: int) -> StatementError:
        before = self._text[:offset]
        line, column = before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1
        # An empty text has no line to point into, and errors need one.
        return StatementError(message, text=self._text or " ", line=line, column=column)
