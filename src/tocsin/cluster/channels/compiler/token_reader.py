"""The words, names and values of a statement, read one after the other; what does not fit is refused, with its position
and what would be allowed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from sqlglot.tokenizer_core import Token, TokenType

from tocsin.cluster.channels.compiler import advice
from tocsin.cluster.channels.compiler.dialect import NAME_RULE, Source, is_name, read_number
from tocsin.cluster.channels.compiler.statements import LiteralValue
from tocsin.errors import StatementError
from tocsin.model.schema import RESERVED_PREFIX, ColumnType

TYPES = {type_.value: type_ for type_ in ColumnType} | {"INTEGER": ColumnType.INT, "LONG": ColumnType.BIGINT}

_Choice = TypeVar("_Choice", bound=StrEnum)
_Item = TypeVar("_Item")


@dataclass(slots=True)
class TokenReader:
    """The tokens of one statement, front to back."""

    source: Source
    tokens: Sequence[Token]
    index: int = 0

    def _literal(self) -> LiteralValue:
        index = self.index
        token = self._take("a value")
        negative = token.text == "-" and token.token_type is TokenType.DASH
        if negative:
            token = self._take("a number")
        if token.token_type is TokenType.NUMBER:
            try:
                return read_number(token.text) * (-1 if negative else 1)
            except ValueError:
                raise self._error(f"{token.text} is not a number that can be stored", index) from None
        if not negative:
            if token.token_type is TokenType.STRING:
                return token.text
            words: dict[str, LiteralValue] = {"TRUE": True, "FALSE": False, "NULL": None}
            if token.text.upper() in words:
                return words[token.text.upper()]
        allowed = "a value must be a string, a number, TRUE, FALSE or NULL"
        raise self._error(f"{allowed}; a time is written as '2026-01-02T03:04:05Z'", index)

    def _choice(self, choices: type[_Choice]) -> _Choice:
        return choices(self._word(*(choice.value for choice in choices)))

    def _if_not_exists(self) -> bool:
        if not self._skip("IF"):
            return False
        self._word("NOT")
        self._word("EXISTS")
        return True

    def _type(self, name: str) -> ColumnType:
        index = self.index
        allowed = ", ".join(ColumnType)
        written = self._take(f"a type: {allowed}").text
        if (type_ := TYPES.get(written.upper())) is None:
            if not is_name(written):
                raise self._error(f"{name} needs a type: {allowed}; such as {name} STRING", index)
            raise self._error(
                f"the type {written} is not allowed; allowed are {allowed}{advice.on_type(written)}", index
            )
        return type_

    def _name(self, what: str) -> str:
        index = self.index
        token = self._take(f"the name of a {what}")
        if token.token_type is TokenType.STRING or not is_name(token.text):
            if token.text in ("$", ":", "@", "?"):
                following = self._text()
                raise self._error(f"a {what} is declared by its name alone: {following or 'name'}", index)
            if token.text.startswith(RESERVED_PREFIX):
                raise self._error(f"{token.text}: names that begin with an underscore are reserved", index)
            raise self._error(f"{token.text!r} can't name a {what}; names are {NAME_RULE}", index)
        return token.text

    def _new_name(self, taken: Iterable[str], what: str) -> None:
        if self._text().lower() in {name.lower() for name in taken}:
            raise self._error(f"the {what} {self._text()} is given twice")

    def _string(self, what: str) -> str:
        index = self.index
        token = self._take(f"{what} in quotes")
        if token.token_type is not TokenType.STRING or not token.text:
            written = self.source.text[token.start : self.tokens[-1].end + 1].split()[0]
            raise self._error(f"{what} must be given in quotes: '{written}'", index)
        return token.text

    def _listed(self, read: Callable[[], _Item]) -> list[_Item]:
        """One item or several, in parentheses."""
        self._sign("(")
        items = [read()]
        while self._skip(","):
            items.append(read())
        self._sign(")")
        return items

    def _word(self, *allowed: str) -> str:
        index = self.index
        listed = f"one of {', '.join(allowed)}" if len(allowed) > 1 else allowed[0]
        token = self._take(listed)
        if token.text.upper() not in allowed or token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
            before = self.tokens[index - 1].text if index else ""
            instead = advice.on_word(before, token.text, allowed) or self._form(index)
            raise self._error(f"expected {listed}, not {token.text!r}{instead}", index)
        return token.text.upper()

    def _sign(self, sign: str) -> None:
        index = self.index
        if self._take(repr(sign)).text != sign:
            found = self._text(index - self.index)
            rule = f"; names are {NAME_RULE}" if found in ("-", ".") else self._form(index)
            raise self._error(f"expected {sign!r}, not {found!r}{rule}", index)

    def _skip(self, word: str) -> bool:
        if not self._next_is(word):
            return False
        self.index += 1
        return True

    def _next_is(self, *words: str) -> bool:
        if self.index >= len(self.tokens):
            return False
        token = self.tokens[self.index]
        return token.text.upper() in words and token.token_type not in (TokenType.STRING, TokenType.IDENTIFIER)

    def _take(self, wanted: str) -> Token:
        if self.index >= len(self.tokens):
            raise self._error(f"the statement ends too soon; expected {wanted}{self._form(self.index)}")
        self.index += 1
        return self.tokens[self.index - 1]

    def _form(self, index: int) -> str:
        """How the statement is written, as far as the words before `index` tell."""
        return advice.on_form(" ".join(token.text for token in self.tokens[: min(index, 2)]))

    def _text(self, ahead: int = 0) -> str:
        index = self.index + ahead
        return self.tokens[index].text if index < len(self.tokens) else ""

    def _shown(self) -> str:
        return repr(self._text())

    def _error(self, message: str, index: int | None = None) -> StatementError:
        index = self.index if index is None else index
        if index < len(self.tokens):
            return self.source.error(message, self.tokens[index].start)
        return self.source.error(message, self.tokens[-1].end)
