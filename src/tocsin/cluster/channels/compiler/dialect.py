"""The SQL dialect of statements and queries: Spark's, made strict.

Three things differ from sqlglot's Spark dialect. Functions keep the name and the arguments they were written with, so
the allow-list of functions is a list of names. This module decodes string literals, with few escapes, and writes them
back, so no text can leave its quotes. And Spark only ever gets SQL that is generated from the tree.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, ClassVar, NoReturn

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.generators.spark import SparkGenerator
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from tocsin.errors import ForbiddenSql, StatementError

#: sqlglot's parser uses some 17 Python frames for each level of parentheses; Python's limit is 1,000.
MAX_DEPTH = 32

MAX_NAME_LENGTH = 64
NAME_RULE = "letters, digits and underscores, beginning with a letter, at most 64 characters"
_NAME = re.compile(rf"[A-Za-z][A-Za-z0-9_]{{0,{MAX_NAME_LENGTH - 1}}}\Z")

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
_ESCAPES = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "t": "\t", "r": "\r"}
_WRITTEN = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


class ChannelSql(Spark):
    """Spark SQL in which every function call stays an `Anonymous` node."""

    class Tokenizer(Spark.Tokenizer):
        # Otherwise sqlglot reads the rest of a SHOW or EXPLAIN as one string.
        COMMANDS: ClassVar[set[TokenType]] = set()
        # As in Spark 4, a doubled quote stands for one; `decode_string` decides.
        STRING_ESCAPES: ClassVar[list[str]] = ["'", '"', "\\"]

    class Parser(SparkParser):
        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: SparkParser.FUNCTION_PARSERS[name] for name in ("CAST", "TRY_CAST")
        }
        NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
        NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {"CASE": SparkParser.NO_PAREN_FUNCTION_PARSERS["CASE"]}

    class Generator(SparkGenerator):
        def literal_sql(self, expression: exp.Literal) -> str:
            return quote_string(expression.this) if expression.is_string else str(expression.this)


#: What an error is about that is about the keys of ONCE PER.
ONCE_PER = "ONCE PER"


@dataclass(frozen=True, slots=True)
class Source:
    """A piece of text that errors point into."""

    text: str
    #: Which part of a statement it is, if it is not the query.
    about: str = ""

    def error(self, message: str, offset: int = -1) -> StatementError:
        line, column = self.line_and_column(offset)
        return StatementError(message, text=self.text, line=line, column=column, about=self.about)

    def forbidden(self, message: str, offset: int = -1) -> ForbiddenSql:
        line, column = self.line_and_column(offset)
        return ForbiddenSql(message, text=self.text, line=line, column=column, about=self.about)

    def line_and_column(self, offset: int) -> tuple[int, int]:
        """Both count from 1, as editors do; both are 0 if the offset is not known."""
        if offset < 0:
            return 0, 0
        before = self.text[:offset]
        return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def keys_query(keys: str) -> str:
    """The expressions of ONCE PER as a query, which is how they are read."""
    return f"SELECT {keys}"


def is_name(text: str) -> bool:
    return _NAME.match(text) is not None


def quote_name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def quote_string(value: str) -> str:
    """`value` as a Spark string literal. `${` is split, because Spark substitutes variables inside literals too."""
    return "'" + "".join(_WRITTEN.get(char, char) for char in value).replace("${", "$\\{") + "'"


def read_number(text: str) -> int | float:
    """A NUMBER token's value. Raises ValueError if it is not finite or not plain."""
    try:
        return int(text)
    except ValueError:
        value = float(text)
    if not isfinite(value):
        raise ValueError(f"{text} is too large")
    return value


def sql_of(node: exp.Expr) -> str:
    """The only way from a tree to text: comments dropped, names quoted, literals re-quoted."""
    return node.sql(dialect=ChannelSql, identify=True, comments=False)


def offset_of(node: exp.Expr) -> int:
    """Where a node begins in its text, as near as sqlglot remembers; -1 if it doesn't."""
    starts = [found.meta["start"] for found in node.walk() if "start" in found.meta]
    return min(starts, default=-1)


def tokenize(source: Source) -> list[Token]:
    """The tokens of a text that holds no control characters, no hints and no odd strings."""
    text = source.text
    if control := _CONTROL.search(text):
        raise source.error("control characters are not allowed", control.start())
    try:
        tokens = ChannelSql().tokenize(text)
    except TokenError:
        opened, what = _without_end(text)
        raise source.error(what, opened) from None
    depth = 0
    for token in tokens:
        match token.token_type:
            case TokenType.STRING:
                token.text = decode_string(source, token)
            case TokenType.L_PAREN | TokenType.L_BRACKET | TokenType.L_BRACE:
                depth += 1
                if depth > MAX_DEPTH:
                    raise source.error(f"nested too deeply: at most {MAX_DEPTH} levels are allowed", token.start)
            case TokenType.R_PAREN | TokenType.R_BRACKET | TokenType.R_BRACE:
                depth -= 1
            case TokenType.PIPE_GT:
                raise source.forbidden("pipe syntax (|>) is not allowed", token.start)
            case TokenType.HINT:
                raise source.forbidden("hints are not allowed", token.start)
            case _ if token.token_type in _ODD_LITERALS:
                raise source.forbidden("only plain string literals are allowed, such as 'text'", token.start)
    return tokens


def _without_end(text: str) -> tuple[int, str]:
    """Where the unterminated string, name or comment begins."""
    for found in _PIECES.finditer(text):
        if found.lastgroup is not None:
            return found.start(), _WITHOUT_END[found.lastgroup]
    return -1, "a string, a name in backticks or a comment has no end"


#: Complete pieces first, then, as named groups, pieces that begin and don't end.
_PIECES = re.compile(
    r"""--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|`(?:[^`]|``)*`"""
    r"""|(?P<comment>/\*)|(?P<string>['"])|(?P<name>`)""",
    re.DOTALL,
)
_WITHOUT_END = {
    "comment": "a comment begins here and has no end: */",
    "string": "a string begins here and has no end; a quote inside a string is doubled: 'it''s'",
    "name": "a name in backticks begins here and has no end",
}

_ODD_LITERALS = {
    TokenType.RAW_STRING,
    TokenType.HEX_STRING,
    TokenType.BIT_STRING,
    TokenType.BYTE_STRING,
    TokenType.NATIONAL_STRING,
    TokenType.NATIONAL_RAW_STRING,
    TokenType.UNICODE_STRING,
    TokenType.HEREDOC_STRING,
    TokenType.BLOCK_START,
    TokenType.BLOCK_END,
}


def decode_string(source: Source, token: Token) -> str:
    """The value of a string literal. Escapes that Spark and sqlglot might read differently are refused."""
    raw = source.text[token.start : token.end + 1]
    quote = raw[0]
    if quote not in "'\"" or raw[-1] != quote or len(raw) < 2:
        raise source.forbidden("only plain string literals are allowed, such as 'text'", token.start)
    decoded: list[str] = []
    index, end = 1, len(raw) - 1
    while index < end:
        char = raw[index]
        if char == "\\":
            index += 1
            if index == end or raw[index] not in _ESCAPES:
                message = r"""unknown escape in a string; allowed are \\ \' \" \n \t \r"""
                raise source.error(message, token.start + index - 1)
            decoded.append(_ESCAPES[raw[index]])
        elif char == quote:
            index += 1
            if index == end or raw[index] != quote:
                raise source.error("a quote inside a string must be doubled or escaped", token.start + index - 1)
            decoded.append(quote)
        else:
            decoded.append(char)
        index += 1
    return "".join(decoded)


def parse_query(source: Source, tokens: Sequence[Token]) -> exp.Expr:
    """The one query that the tokens hold."""
    if (variable := source.text.find("${")) >= 0:
        raise source.forbidden("variables (${...}) are not allowed: parameters are written :name", variable)
    if not tokens or tokens[0].token_type not in (TokenType.SELECT, TokenType.WITH, TokenType.L_PAREN):
        raise source.forbidden("only queries are allowed: SELECT ... or WITH ... SELECT ...", 0)
    try:
        trees = ChannelSql.parser_class(dialect=ChannelSql()).parse(list(tokens), source.text)
    except ParseError as error:
        _refuse(source, error)
    except RecursionError:
        raise source.error("nested too deeply", 0) from None
    except Exception:  # noqa: BLE001
        # sqlglot fails on some nonsense with whatever its own code raises, e.g. AttributeError for `{a:}`.
        raise source.error("not valid SQL", 0) from None
    if len(trees) != 1 or trees[0] is None:
        raise source.forbidden("exactly one query is allowed", 0)
    return trees[0]


def _refuse(source: Source, error: ParseError) -> NoReturn:
    detail = error.errors[0] if error.errors else {}
    written = str(detail.get("description") or "not understood")
    description = written[:1].lower() + written[1:]
    if "missing for <class" in description:
        description = "something is missing after this, such as a column, a value or a condition"
    elif missing := re.fullmatch(r"expecting (\S)", description):
        description = f"a {missing[1]} is missing here"
    elif "nexpected token" in description:
        description = "this was not expected here; is something missing before it, such as a comma, AND or a quote?"
    highlight, line, column = str(detail.get("highlight") or ""), detail.get("line") or 0, detail.get("col") or 0
    before = str(detail.get("start_context") or "") + highlight
    if clause := re.search(r"\b(GROUP|ORDER|PARTITION)(\s+\S+)?$", before, re.IGNORECASE):
        description = f"BY is missing: write {clause[1].upper()} BY"
    raise StatementError(
        f"not valid SQL: {description}",
        text=source.text,
        line=line,
        column=max(1, column - len(highlight) + 1),
        about=source.about,
    ) from None


def column_of(name: str, table: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True), table=exp.to_identifier(table, quoted=True))


def call(name: str, *arguments: exp.Expr) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=list(arguments))


def function_name(node: exp.Expr) -> str:
    """The lower-case name of a function call; empty for anything else."""
    return node.this.lower() if isinstance(node, exp.Anonymous) and isinstance(node.this, str) else ""
