"""Scenarios from TOML: errors name the file, line and key, and what was probably meant.

The parser gives lines only for broken TOML, so the lines of keys are found by searching the text.
"""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path as FilePath
from typing import Any, get_args

import msgspec

from tocsin.errors import InvalidValue
from tocsin.simulator.faults import Path, faults
from tocsin.simulator.scenario import Scenario

_HEADER = re.compile(r"^\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""^\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*=""")
_AT = re.compile(r"^(.*?) - at `(\$[^`]*)`$", re.DOTALL)
_STEP = re.compile(r"\.([A-Za-z0-9_-]+)|\[(\d+|\.\.\.)\]")
_UNKNOWN = re.compile(r"^Object contains unknown field `([^`]*)`$")
_MISSING = re.compile(r"^Object missing required field `([^`]*)`$")

_PRESETS = resources.files("tocsin.simulator") / "presets"


def presets() -> dict[str, Scenario]:
    """The scenarios that come with Tocsin, by name."""
    names = sorted(one.name for one in _PRESETS.iterdir() if one.name.endswith(".toml"))
    return {name.removesuffix(".toml"): parse(_PRESETS.joinpath(name).read_text("utf-8"), name) for name in names}


def load(name: str, changes: Mapping[str, str] | None = None) -> Scenario:
    """A preset by its name, or the scenario in a file. `changes` are keys with dots, and values as TOML."""
    preset = _PRESETS.joinpath(f"{name}.toml")
    if re.fullmatch(r"[a-z0-9-]+", name) and preset.is_file():
        return parse(preset.read_text("utf-8"), f"{name}.toml", changes)
    file = FilePath(name)
    if file.suffix != ".toml" or not file.is_file():
        known = sorted(one.name.removesuffix(".toml") for one in _PRESETS.iterdir() if one.name.endswith(".toml"))
        raise InvalidValue(f"no scenario {name!r}{_meant(name, known)}; there are: {', '.join(known)}, or give a file")
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise InvalidValue(f"{name} can't be read: {exc}") from exc
    return parse(text, file.name, changes)


def parse(text: str, file: str, changes: Mapping[str, str] | None = None) -> Scenario:
    """The scenario in `text`; `file` is its name in errors."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise InvalidValue(f"{file}: this is not TOML: {exc}") from exc
    where = _Where(file, text, {})
    for key, value in (changes or {}).items():
        where.changed[_change(document, key, value)] = f"--set {key}={value}"
    for path in _not_finite(document):
        raise where.error(document, path, "has to be a finite number")
    try:
        scenario = msgspec.convert(document, Scenario)
    except msgspec.ValidationError as exc:
        raise _refusal(where, document, str(exc)) from exc
    for path, fault in faults(scenario):
        raise where.error(document, path, fault)
    return scenario


class _Where:
    """The line of a key in the text. A key that is not there has the line of its table."""

    def __init__(self, file: str, text: str, changed: dict[Path, str]) -> None:
        self._file = file
        self._lines = _lines(text)
        self.changed = changed

    def error(self, document: Mapping[str, Any], path: Path, what: str, *, names_value: bool = True) -> InvalidValue:
        value = _at(document, path)
        shown = f" = {value!r}" if names_value and isinstance(value, str | int | float | list) else ""
        return InvalidValue(f"{self._path_name(path)}: {_spoken(path)}{shown} {what}")

    def _path_name(self, path: Path) -> str:
        for length in range(len(path), 0, -1):
            if path[:length] in self.changed:
                return self.changed[path[:length]]
            if path[:length] in self._lines:
                return f"{self._file}, line {self._lines[path[:length]]}"
        return next((change for key, change in self.changed.items() if key[: len(path)] == path), self._file)


def _refusal(where: _Where, document: Mapping[str, Any], message: str) -> InvalidValue:
    """msgspec's error, in our words."""
    match = _AT.match(message)
    what, path = (match[1], _path(document, match[2], match[1])) if match else (message, ())
    if unknown := _UNKNOWN.match(what):
        known = _keys_at(path)
        listed = f"; there are: {', '.join(known)}"
        return where.error(
            document, (*path, unknown[1]), f"is no key here{_meant(unknown[1], known)}{listed}", names_value=False
        )
    if missing := _MISSING.match(what):
        return where.error(document, (*path, missing[1]), "is missing")
    return where.error(document, path, f"is not allowed: {what[:1].lower()}{what[1:]}")


def _path(document: Any, text: str, what: str) -> Path:
    """msgspec does not number the elements of lists; to find the wrong one, each is checked by itself."""
    path: list[str | int] = []
    for key, number in _STEP.findall(text):
        if key:
            path.append(key)
        elif number.isdecimal():
            path.append(int(number))
        else:
            elements = _at(document, tuple(path))
            path.append(_first_at_fault(path, elements if isinstance(elements, list) else [], what))
    return tuple(path)


def _first_at_fault(path: Sequence[str | int], elements: list[Any], what: str) -> int:
    kind = _kind_at(path)
    for number, element in enumerate(elements):
        for one in _element_kinds(kind):
            try:
                msgspec.convert(element, one)
            except msgspec.ValidationError as exc:
                if str(exc).startswith(what):
                    return number
    return 0


def _kind_at(path: Sequence[str | int]) -> Any:
    """The type of the value at `path`."""
    kind: Any = Scenario
    for step in path:
        if isinstance(step, int):
            kind = next(iter(_element_kinds(kind)), Any)
        else:
            structs = [
                one for one in (kind, *get_args(kind)) if isinstance(one, type) and issubclass(one, msgspec.Struct)
            ]
            fields = {one.name: one.type for struct in structs for one in msgspec.structs.fields(struct)}
            kind = fields.get(step, Any)
    return kind


def _element_kinds(kind: Any) -> Iterator[Any]:
    for one in (kind, *get_args(kind)):
        if getattr(one, "__origin__", None) is tuple:
            yield get_args(one)[0]
        elif getattr(one, "__metadata__", None):
            yield from _element_kinds(one.__origin__)


def _keys_at(path: Path) -> list[str]:
    kind = _kind_at(path)
    structs = [one for one in (kind, *get_args(kind)) if isinstance(one, type) and issubclass(one, msgspec.Struct)]
    return sorted({name for struct in structs for name in struct.__struct_fields__})


def _meant(given: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(given, known, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _not_finite(value: Any, path: Path = ()) -> Iterator[Path]:
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _not_finite(one, (*path, key))
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from _not_finite(one, (*path, number))
    elif isinstance(value, float) and not math.isfinite(value):
        yield path


def _at(value: Any, path: Path) -> Any:
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _spoken(path: Path) -> str:
    """
    >>> _spoken(("balancing", "alpha")), _spoken(("failures", 1, "broker")), _spoken(("seed",))
    ('[balancing] alpha', '[[failures]] (2nd) broker', 'seed')
    """
    words: list[str] = []
    for step, following in zip(path, [*path[1:], None], strict=True):
        if isinstance(step, int):
            words.append(f"({step + 1}{ {1: 'st', 2: 'nd', 3: 'rd'}.get(step + 1, 'th') })")
        elif isinstance(following, int):
            words.append(f"[[{step}]]")
        else:
            words.append(f"[{step}]" if following is not None else step)
    return " ".join(words)


def _change(document: dict[str, Any], key: str, value: str) -> Path:
    """Put one value into the document; a number stands for an element of a list."""
    try:
        new = tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        new = value
    path: Path = tuple(int(step) if step.isdecimal() else step for step in key.split("."))
    if not all(step != "" for step in path):
        raise InvalidValue(f"--set {key}={value}: give a key such as balancing.alpha")
    inner: Any = document
    for step in path[:-1]:
        if isinstance(inner, dict) and isinstance(step, str):
            inner = inner.setdefault(step, {})
        elif isinstance(inner, list) and isinstance(step, int) and step < len(inner):
            inner = inner[step]
        else:
            raise InvalidValue(f"--set {key}={value}: there is no {step} to set anything in")
    last = path[-1]
    is_key = isinstance(inner, dict) and isinstance(last, str)
    is_element = isinstance(inner, list) and isinstance(last, int) and last < len(inner)
    if not (is_key or is_element):
        raise InvalidValue(f"--set {key}={value}: there is no {last} to set")
    inner[last] = new
    return path


def _lines(text: str) -> dict[Path, int]:
    """The line of every table and key, as far as they begin a line."""
    found: dict[Path, int] = {}
    table: Path = ()
    counts: dict[Path, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = _inside(_steps(header[2]), counts)
            if header[1] == "[[":
                count = counts[table] = counts.get(table, -1) + 1
                found.setdefault(table, number)
                table = (*table, count)
            found.setdefault(table, number)
        elif key := _KEY.match(line):
            found.setdefault((*table, *_steps(key[1])), number)
    return found


def _steps(dotted: str) -> Path:
    return tuple(part.strip().strip("\"'") for part in re.split(r"\.(?=(?:[^\"]*\"[^\"]*\")*[^\"]*$)", dotted))


def _inside(steps: Path, counts: Mapping[Path, int]) -> Path:
    """A table below a list of tables belongs to the last one of the list."""
    path: Path = ()
    for step in steps[:-1]:
        path = (*path, step)
        if path in counts:
            path = (*path, counts[path])
    return (*path, *steps[-1:])
