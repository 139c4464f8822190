"""Statements from text. This module reads a statement's frame and keeps a query inside it exactly as written.

It refuses any other text, with the position and the words that would be allowed. It looks nothing up: other modules,
which know the catalogue, decide whether a dataset exists or a query may run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from sys import float_info

from sqlglot.tokenizer_core import TokenType

from tocsin.cluster.channels.compiler import statements
from tocsin.cluster.channels.compiler.channel_options import (
    MAX_PERIOD_S,
    MIN_PERIOD_S,
    OPTIONS,
    UNITS,
    UNITS_OF_PERIODS,
)
from tocsin.cluster.channels.compiler.dialect import ONCE_PER, keys_query, read_number
from tocsin.cluster.channels.compiler.statements import FileFormat, Kind, Listing, LiteralValue, Statement
from tocsin.cluster.channels.compiler.token_reader import TokenReader
from tocsin.model.catalogue import (
    Channel,
    ChannelKind,
    Dataset,
    DatasetKind,
    Feed,
    FeedSource,
    FilledBy,
    OncePer,
    Parameter,
)
from tocsin.model.grants import Action, Grant, GranteeKind
from tocsin.model.schema import NUMBERS, Column, ColumnType, Schema

MIN_WITHIN_S = 1.0
MAX_WITHIN_S = 366 * 24 * 3600.0
#: The coordinator's limit.
MAX_CLASS_LENGTH = 255

_EXTENSIONS = {
    ".csv": FileFormat.CSV,
    ".ndjson": FileFormat.NDJSON,
    ".jsonl": FileFormat.NDJSON,
    ".json": FileFormat.NDJSON,
    ".parquet": FileFormat.PARQUET,
}


@dataclass(slots=True)
class StatementReader(TokenReader):
    """Reads one statement; `statement` may be called once."""

    #: The offset in the source at which the query inside the statement begins.
    query_start: int | None = None
    #: The offsets of the parameters that the statement declares, by name, and of the keys of ONCE PER.
    declared: dict[str, int] = field(default_factory=dict)

    def statement(self) -> Statement:
        readers: Mapping[str, Callable[[], Statement]] = {
            "CREATE": self._create,
            "ALTER": self._alter,
            "LOAD": self._load,
            "INSERT": self._insert,
            "DELETE": self._delete,
            "FORGET": self._forget,
            "SHOW": self._show,
            "DESCRIBE": self._describe,
            "EXPLAIN": lambda: statements.ExplainChannel(self._channel()),
            "PAUSE": lambda: statements.PauseChannel(self._channel()),
            "RESUME": lambda: statements.ResumeChannel(self._channel()),
            "DROP": self._drop,
            "GRANT": lambda: statements.GrantTo(self._grant("TO")),
            "REVOKE": lambda: statements.RevokeFrom(self._grant("FROM")),
        }
        if self._next_is("SELECT", "WITH", "("):
            return statements.Select(self._rest())
        statement = readers[self._word(*readers, "SELECT")]()
        if self.index < len(self.tokens):
            instead = "; statements are separated by ;" if self._next_is(*readers, "SELECT") else self._form(self.index)
            raise self._error(f"the statement should end before {self._shown()}{instead}")
        return statement

    # One method per statement

    def _create(self) -> Statement:
        if self._skip("OR"):
            self._word("REPLACE")
            if self._next_is("ACTIVE", "KEYED", "REFERENCE", "FEED", "PUBLISHER", "DATASET"):
                raise self._error(
                    "only channels can be replaced: DROP it first, or write IF NOT EXISTS before the name"
                )
            return self._create_channel(self._choice(ChannelKind), or_replace=True)
        word = self._word("ACTIVE", "KEYED", "REFERENCE", "FEED", "REPETITIVE", "CONTINUOUS", "PUBLISHER")
        if word == "FEED":
            return self._create_feed()
        if word == "PUBLISHER":
            if_not_exists = self._if_not_exists()
            return statements.CreatePublisher(self._name("publisher"), if_not_exists)
        if word in ("REPETITIVE", "CONTINUOUS"):
            return self._create_channel(ChannelKind(word))
        return self._create_dataset(DatasetKind(word))

    def _create_dataset(self, kind: DatasetKind) -> Statement:
        self._word("DATASET")
        if_not_exists = self._if_not_exists()
        name = self._name("dataset")
        self._sign("(")
        columns: list[Column] = []
        key: list[tuple[str, int]] = []
        while True:
            if self._next_is("PRIMARY") and len(self.tokens) > self.index + 1 and self._text(1).upper() == "KEY":
                if key:
                    raise self._error("PRIMARY KEY is given twice")
                key = self._primary_key()
            else:
                self._new_name((column.name for column in columns), "column")
                columns.append(self._column())
            if not self._skip(","):
                break
        self._sign(")")
        return statements.CreateDataset(Dataset(name, kind, self._schema(kind, columns, key)), if_not_exists)

    def _primary_key(self) -> list[tuple[str, int]]:
        """The key's columns, and their positions."""
        self._word("PRIMARY")
        self._word("KEY")
        return self._listed(lambda: (self._name("column"), self.index - 1))

    def _schema(self, kind: DatasetKind, columns: list[Column], key: list[tuple[str, int]]) -> Schema:
        last = self.index - 1
        if not columns:
            raise self._error("a dataset needs at least one column", last)
        if not key and kind is not DatasetKind.REFERENCE:
            example = f"PRIMARY KEY ({columns[0].name})"
            raise self._error(f"{kind} datasets need a PRIMARY KEY: name its columns here, such as {example}", last)
        found = Schema(tuple(columns))
        keys = []
        for name, index in key:
            column = found.find(name)
            if column is None:
                known = ", ".join(found.names)
                raise self._error(f"PRIMARY KEY: there is no column {name}; there are {known}", index)
            if column.name in keys:
                raise self._error(f"PRIMARY KEY: {name} is given twice", index)
            keys.append(column.name)
        filled = tuple(
            Column(column.name, column.type, nullable=column.nullable and column.name not in keys) for column in columns
        )
        return Schema(filled, tuple(keys))

    def _column(self) -> Column:
        name = self._name("column")
        type_ = self._type(name)
        nullable = True
        if self._skip("NOT"):
            self._word("NULL")
            nullable = False
        if self._next_is("PRIMARY"):
            raise self._error(f"the key is named after all columns: ({name} {type_}, ..., PRIMARY KEY ({name}))")
        return Column(name, type_, nullable)

    def _create_feed(self) -> Statement:
        if_not_exists = self._if_not_exists()
        name = self._name("feed")
        self._word("INTO")
        dataset = self._name("dataset")
        self._word("FROM")
        origin = FeedSource(self._word(*FeedSource))
        location = self._string("the folder") if origin is FeedSource.FOLDER else ""
        return statements.CreateFeed(Feed(name, dataset, origin, location), if_not_exists)

    def _create_channel(self, kind: ChannelKind, *, or_replace: bool = False) -> Statement:
        self._word("CHANNEL")
        if or_replace and self._next_is("IF"):
            raise self._error("OR REPLACE and IF NOT EXISTS contradict each other: write one of them")
        if_not_exists = self._if_not_exists()
        name = self._name("channel")
        if self._next_is("AS", "PERIOD", "ONCE", "WITH"):
            raise self._error(f"the parameters are missing; a channel without any is written {name} ()")
        self._sign("(")
        parameters: list[Parameter] = []
        while not self._next_is(")"):
            self._new_name((parameter.name for parameter in parameters), "parameter")
            start = self.tokens[self.index].start
            parameters.append(self._parameter())
            self.declared[parameters[-1].name] = start
            if not self._skip(","):
                break
        self._sign(")")
        period_s = None
        if kind is ChannelKind.REPETITIVE:
            self._word("PERIOD")
            period_s = self._period_s()
        elif self._next_is("PERIOD"):
            raise self._error("CONTINUOUS channels have no PERIOD; they run when records arrive")
        once = self._once_per() if self._next_is("ONCE") else None
        if once is None and self._next_is("WITHIN"):
            raise self._error("WITHIN belongs to ONCE PER: write ONCE PER (r.id) WITHIN 1 DAY")
        if once is None and self._with_exits():
            raise self._error("WITH EXITS needs ONCE PER: write ONCE PER (r.id) WITH EXITS", self.index - 2)
        snapshot = self._with_snapshot(once)
        self._word("AS")
        channel = Channel(name, kind, tuple(parameters), self._rest(), period_s, once, snapshot=snapshot)
        return statements.CreateChannel(channel, if_not_exists, or_replace)

    def _once_per(self) -> OncePer:
        self._word("ONCE")
        self._word("PER")
        self._sign("(")
        begin, depth = self.index, 0
        while depth or not self._next_is(")"):
            token_type = self._take("')' after the keys of ONCE PER").token_type
            depth += (token_type is TokenType.L_PAREN) - (token_type is TokenType.R_PAREN)
        if self.index == begin:
            raise self._error("ONCE PER needs a key, such as ONCE PER (r.id)")
        start, end = self.tokens[begin].start, self.tokens[self.index - 1].end
        self.declared[ONCE_PER] = start - len(keys_query(""))
        self._sign(")")
        within_s = self._within_s() if self._skip("WITHIN") else None
        return OncePer(self.source.text[start : end + 1], within_s, self._with_exits())

    def _with_snapshot(self, once: OncePer | None) -> bool:
        begin = self.index
        if not self._skip("WITH"):
            return False
        self._word("SNAPSHOT")
        if once is not None and once.with_exits:
            # Who joins a subscription is shown what the others were never told of: nobody would say that it ended.
            raise self._error("a channel is WITH EXITS or WITH SNAPSHOT, not both: leave one of them out", begin)
        return True

    def _with_exits(self) -> bool:
        begin = self.index
        if self._skip("WITH") and self._skip("EXITS"):
            return True
        self.index = begin
        return False

    def _within_s(self) -> float:
        index = self.index
        seconds = self._duration_s(UNITS, "WITHIN 1 DAY")
        if not MIN_WITHIN_S <= seconds <= MAX_WITHIN_S:
            raise self._error("WITHIN must lie between 1 second and 366 days", index)
        return seconds

    def _parameter(self) -> Parameter:
        name = self._name("parameter")
        type_ = self._type(name)
        index = self.index
        if self._skip("IS"):
            filled_by = self._choice(FilledBy)
            if type_ is not ColumnType.STRING:
                raise self._error(
                    f"IS {filled_by} is for a STRING: write {name} STRING IS {filled_by}, not {type_}", index
                )
            return Parameter(name, type_, filled_by=filled_by)
        if not self._skip("MAX"):
            return Parameter(name, type_)
        if type_ not in NUMBERS:
            raise self._error(f"MAX is for numbers: {', '.join(NUMBERS)}; {name} is a {type_}", index)
        maximum = self._literal()
        if isinstance(maximum, bool | str | None) or not 0 <= maximum <= float_info.max:
            raise self._error(f"MAX needs a number from 0 on, such as {name} {type_} MAX 50000", index)
        if type_ is not ColumnType.DOUBLE and not isinstance(maximum, int):
            raise self._error(f"the MAX of {name} must be a whole number, as its type {type_} is", index)
        return Parameter(name, type_, float(maximum) if type_ is ColumnType.DOUBLE else maximum)

    def _period_s(self) -> float:
        index = self.index
        seconds = self._duration_s(UNITS_OF_PERIODS, "PERIOD 10 SECONDS")
        if not MIN_PERIOD_S <= seconds <= MAX_PERIOD_S:
            raise self._error("PERIOD must lie between 0.1 seconds and 24 hours", index)
        return seconds

    def _duration_s(self, units: Mapping[str, int], example: str) -> float:
        index = self.index
        *others, last = (unit for unit in units if unit.endswith("S"))
        number = self._take(f"a number and {', '.join(others)} or {last}")
        if number.token_type is not TokenType.NUMBER:
            raise self._error(f"{example.partition(' ')[0]} needs a number, such as {example}", index)
        try:
            count = read_number(number.text)
        except ValueError:
            raise self._error(f"{number.text} is not a number", index) from None
        if not self._next_is(*units):
            raise self._error(f"expected one of {', '.join(units)}, such as {example}, not {self._shown()}")
        return count * units[self._word(*units)]

    def _alter(self) -> Statement:
        if self._word("DATASET", "CHANNEL") == "CHANNEL":
            return self._alter_channel()
        dataset = self._name("dataset")
        if self._next_is("DROP", "RENAME", "ALTER", "MODIFY", "CHANGE"):
            raise self._error("expected ADD: columns can only be added; leave others out of the SELECT list")
        self._word("ADD")
        self._word("COLUMN")
        if_not_exists = self._if_not_exists()
        index = self.index
        column = self._column()
        if not column.nullable:
            raise self._error("a column that is added can't be NOT NULL: the rows already there have no value", index)
        return statements.AlterDatasetAddColumn(dataset, column, if_not_exists)

    def _alter_channel(self) -> Statement:
        name = self._name("channel")
        if self._next_is("ADD", "DROP", "RENAME", "AS"):
            raise self._error("expected SET (period = ..., retention = ...): nothing else of a channel can be altered")
        self._word("SET")
        self._sign("(")
        found: dict[str, float] = {}
        while True:
            index = self.index
            option = self._word(*OPTIONS)
            if option in found:
                raise self._error(f"{option.lower()} is given twice", index)
            self._sign("=")
            found[option] = self._option_s(option)
            if not self._skip(","):
                break
        self._sign(")")
        return statements.AlterChannel(name, found.get("PERIOD"), found.get("RETENTION"))

    def _option_s(self, option: str) -> float:
        """Seconds, given as a string such as '30 seconds'; 0 for DEFAULT."""
        if option == "RETENTION" and self._skip("DEFAULT"):
            return 0.0
        index = self.index
        token = self._take(f"a time in quotes, such as {OPTIONS[option].example}")
        try:
            return OPTIONS[option].seconds(token.text if token.token_type is TokenType.STRING else "")
        except ValueError as exc:
            raise self._error(f"{option.lower()} {exc}", index) from None

    def _load(self) -> Statement:
        self._word("DATASET")
        dataset = self._name("dataset")
        self._word("FROM")
        index = self.index
        path = self._string("the file")
        if self._skip("FORMAT"):
            return statements.LoadDataset(
                dataset, path, FileFormat(self._word(*(f.upper() for f in FileFormat)).lower())
            )
        format_ = _EXTENSIONS.get(PurePath(path).suffix.lower())
        if format_ is None:
            known = ", ".join(_EXTENSIONS)
            raise self._error(f"the format of {path!r} is unknown: known are {known}; or add FORMAT csv", index)
        return statements.LoadDataset(dataset, path, format_)

    def _insert(self) -> Statement:
        self._word("INTO")
        dataset = self._name("dataset")
        columns: list[str] | None = None
        if self._skip("("):
            columns = []
            while True:
                self._new_name(columns, "column")
                columns.append(self._name("column"))
                if not self._skip(","):
                    break
            self._sign(")")
        if self._next_is("SELECT", "WITH"):
            raise self._error("INSERT takes VALUES (...), (...) only; LOAD DATASET reads files, feeds take records")
        self._word("VALUES")
        rows: list[tuple[LiteralValue, ...]] = []
        while True:
            index = self.index
            rows.append(tuple(self._listed(self._literal)))
            if len(rows[-1]) != len(columns if columns is not None else rows[0]):
                wanted = len(columns if columns is not None else rows[0])
                raise self._error(f"this row has {len(rows[-1])} values instead of {wanted}", index)
            if not self._skip(","):
                break
        return statements.Insert(dataset, tuple(columns) if columns is not None else None, tuple(rows))

    def _delete(self) -> Statement:
        self._word("FROM")
        dataset = self._name("dataset")
        if self.index >= len(self.tokens):
            raise self._error("DELETE needs WHERE and a condition; WHERE TRUE removes all rows")
        self._word("WHERE")
        if self.index >= len(self.tokens):
            raise self._error("a condition is missing here; TRUE removes all rows")
        start, end = self.tokens[self.index].start, self.tokens[-1].end
        self.index = len(self.tokens)
        statement = statements.Delete(dataset, self.source.text[start : end + 1])
        self.query_start = start - len(statement.opening)
        return statement

    def _forget(self) -> Statement:
        self._word("PERSON")
        index = self.index
        token = self._take("a name in quotes")
        if token.token_type is not TokenType.STRING or not token.text.strip():
            raise self._error("the name must be given in quotes, such as FORGET PERSON 'ann'", index)
        return statements.ForgetPerson(token.text)

    def _show(self) -> Statement:
        listing = self._choice(Listing)
        if listing is not Listing.GRANTS or not self._skip("ON"):
            return statements.Show(listing)
        kind = self._word("CHANNEL", "FEED")
        action = Action.SUBSCRIBE if kind == "CHANNEL" else Action.PUBLISH
        return statements.Show(listing, (action, self._name(kind.lower())))

    def _grant(self, preposition: str) -> Grant:
        action = self._choice(Action)
        kind = "CHANNEL" if action is Action.SUBSCRIBE else "FEED"
        self._word("ON")
        self._word(kind)
        on = self._name(kind.lower())
        self._word(preposition)
        if action is Action.PUBLISH:
            self._word("PUBLISHER")
            return Grant(action, on, GranteeKind.PUBLISHER, self._name("publisher"))
        if self._word("CLASS", "ALL") == "ALL":
            return Grant(action, on, GranteeKind.ALL)
        index = self.index
        permission = self._take("the name of a permission class").text
        if len(permission) > MAX_CLASS_LENGTH:
            raise self._error(f"a permission class has at most {MAX_CLASS_LENGTH} characters", index)
        return Grant(action, on, GranteeKind.CLASS, permission)

    def _describe(self) -> Statement:
        kind = self._choice(Kind)
        return statements.Describe(kind, self._name(kind.lower()))

    def _channel(self) -> str:
        self._word("CHANNEL")
        return self._name("channel")

    def _drop(self) -> Statement:
        kind = self._word(*Kind, "PUBLISHER")
        if_exists = self._skip("IF")
        if if_exists:
            self._word("EXISTS")
        name = self._name(kind.lower())
        if kind == "PUBLISHER":
            return statements.DropPublisher(name, if_exists)
        return statements.Drop(Kind(kind), name, if_exists)

    def _rest(self) -> str:
        """The text from here to the end of the statement, exactly as written."""
        if self.index >= len(self.tokens):
            raise self._error("a query is missing here: SELECT ...")
        if not self._next_is("SELECT", "WITH", "("):
            raise self._error(f"a query is expected here, beginning with SELECT or WITH, not {self._shown()}")
        start, end = self.tokens[self.index].start, self.tokens[-1].end
        self.index = len(self.tokens)
        self.query_start = start
        return self.source.text[start : end + 1]
