"""Scripts: statements from a text, each with its position, so that errors can point into the text.

All statements are read before the first is carried out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot.tokenizer_core import Token, TokenType

from tocsin.cluster.channels.compiler.dialect import Source, tokenize
from tocsin.cluster.channels.compiler.parse import StatementReader
from tocsin.cluster.channels.compiler.statements import Statement
from tocsin.errors import ScriptProgress, StatementError, TocsinError

MAX_SCRIPT_LENGTH = 1 << 20


@dataclass(frozen=True, slots=True)
class ScriptStatement:
    """A statement, and where in the script it, the query inside it and its parameters begin, as offsets from 0."""

    statement: Statement
    start: int
    query_start: int | None
    declared: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Script:
    source: Source
    statements: tuple[ScriptStatement, ...]

    def locate(self, error: TocsinError, at: int, done: Sequence[str]) -> None:
        """Add to the error of statement `at` (from 0) its position in the script, and what earlier statements did."""
        failed = self.statements[at]
        error.script = _progress(self.source, failed.start, at, len(self.statements), done)
        if isinstance(error, StatementError) and error.text != self.source.text:
            offset = failed.declared.get(error.about, failed.start)
            if error.line and failed.query_start is not None:
                begin = failed.declared.get(error.about, failed.query_start)
                offset = begin + _offset(error.text, error.line, error.column)
            error.text = self.source.text
            error.line, error.column = self.source.line_and_column(offset)


def read_script(text: str) -> Script:
    """The statements of a script with their positions. `;` separates them, and comments may stand anywhere."""
    source = Source(text)
    if len(text.encode("utf-8", "replace")) > MAX_SCRIPT_LENGTH:
        raise StatementError(f"the script is too long: at most {MAX_SCRIPT_LENGTH:,} bytes are allowed")
    written: list[list[Token]] = [[]]
    for token in _words(tokenize(source)):
        if token.token_type is TokenType.SEMICOLON:
            written.append([])
        else:
            written[-1].append(token)
    written = [tokens for tokens in written if tokens]
    found: list[ScriptStatement] = []
    for at, tokens in enumerate(written):
        reader = StatementReader(source, tokens)
        try:
            found.append(ScriptStatement(reader.statement(), tokens[0].start, reader.query_start, reader.declared))
        except StatementError as error:
            # No statement has been carried out yet.
            error.script = _progress(source, tokens[0].start, at, len(written), ())
            raise
    return Script(source, tuple(found))


def _progress(source: Source, start: int, at: int, count: int, done: Sequence[str]) -> ScriptProgress | None:
    """None for a script of one statement: its errors need no number."""
    return ScriptProgress(at + 1, count, source.line_and_column(start)[0], tuple(done)) if count > 1 else None


def _offset(text: str, line: int, column: int) -> int:
    return sum(len(before) + 1 for before in text.split("\n")[: line - 1]) + column - 1


def _words(tokens: Iterable[Token]) -> Iterator[Token]:
    """The tokens, with keywords of several words, such as PRIMARY KEY, split into words."""
    for token in tokens:
        words = token.text.split()
        if len(words) < 2 or token.token_type in (TokenType.STRING, TokenType.IDENTIFIER):
            yield token
            continue
        for number, word in enumerate(words):
            # The last word keeps the end, because a query's text is cut out by offsets.
            yield Token(TokenType.VAR, word, start=token.start, end=token.end if number else token.start)
