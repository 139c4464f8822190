"""Calls: a channel and its parameter values as people type them, `EmergenciesOfType(etype => 'flood')` (pure).

Values are data: strings in single or double quotes, numbers, true and false.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from tocsin.filters.tokens import Token, Tokens, quoted, token_pattern
from tocsin.filters.words import MARKS
from tocsin.model.catalogue import ParameterValue

_HOW = "write Channel(name => 'text', other => 5)"
_MAX_CHARACTERS = 100_000
#: Longer whole numbers fit no parameter, and Python refuses to read those of thousands of digits.
_MAX_DIGITS = 400
#: With the marks of filters, which may follow.
_TOKEN = token_pattern(rf"=>|{MARKS}")


def parse_call(text: str) -> tuple[str, dict[str, ParameterValue], str]:
    """The channel, the parameter values, and the filter that may follow: brokers read that, since they know the columns
    of the channel. StatementError points at the first character that can't be read.

    >>> parse_call('EmergenciesOfType(etype => "flood")')
    ('EmergenciesOfType', {'etype': 'flood'}, '')
    >>> parse_call("EmergenciesNear(x => -1.5, urgent => true) WHERE severity >= 3")
    ('EmergenciesNear', {'x': -1.5, 'urgent': True}, 'severity >= 3')
    >>> parse_call("Everything")
    ('Everything', {}, '')
    """
    return _Parser(text).call()


def write_call(channel: str, parameters: Mapping[str, ParameterValue], where: str = "") -> str:
    """The call as text that `parse_call` reads back.

    >>> write_call("EmergenciesOfType", {"etype": "Fisher's", "severity": 3})
    "EmergenciesOfType(etype => 'Fisher''s', severity => 3)"
    """
    return f"{channel}({', '.join(f'{name} => {_written(value)}' for name, value in parameters.items())})" + (
        f" WHERE {where}" if where else ""
    )


def _written(value: ParameterValue) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return quoted(value)
        case _:
            return repr(value)


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = Tokens(text, _TOKEN, _MAX_CHARACTERS, "a call", _HOW)

    def call(self) -> tuple[str, dict[str, ParameterValue], str]:
        tokens = self._tokens
        channel, values = self._call()
        if not tokens.next().kind:
            return channel, values, ""
        word = tokens.next()
        if not tokens.take_word("WHERE"):
            raise tokens.error("only WHERE and a filter may follow the call", word.offset)
        if not tokens.next().kind:
            raise tokens.error("expected a condition after WHERE, such as severity >= 3", word.offset)
        return channel, values, tokens.text[word.end :].strip()

    def _call(self) -> tuple[str, dict[str, ParameterValue]]:
        tokens = self._tokens
        channel = self._name("the name of a channel").text
        values: dict[str, ParameterValue] = {}
        if tokens.next().kind and not tokens.next().is_word("WHERE"):
            tokens.take_mark("(")
            while not tokens.next().is_mark(")"):
                if values:
                    tokens.take_mark(",")
                name = self._name("the name of a parameter")
                if name.text.lower() in {known.lower() for known in values}:
                    raise tokens.error(f"the parameter {name.text} is given twice", name.offset)
                tokens.take_mark("=>")
                values[name.text] = self._value()
            tokens.take_mark(")")
        return channel, values

    def _name(self, what: str) -> Token:
        if self._tokens.next().kind != "name":
            raise self._tokens.error(f"expected {what}; {_HOW}", self._tokens.next().offset)
        return self._tokens.take()

    def _value(self) -> ParameterValue:
        token = self._tokens.take()
        if token.kind == "string":
            return self._tokens.string(token)
        if token.kind == "number":
            return self._number(token)
        if token.is_word("TRUE") or token.is_word("FALSE"):
            return token.is_word("TRUE")
        raise self._tokens.error(f"expected a string in quotes, a number, true or false; {_HOW}", token.offset)

    def _number(self, token: Token) -> int | float:
        written = "".join(token.text.split())
        if len(written) <= _MAX_DIGITS:
            value = int(written) if written.lstrip("+-").isdigit() else float(written)
            if isfinite(value):
                return value
        raise self._tokens.error(f"{written[:40]} is not a finite number", token.offset)
