"""The glossary has each word once, and nothing is named with a word that it bans."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_GLOSSARY = (ROOT / "docs" / "glossary.md").read_text()
_SOURCES = sorted((ROOT / "src" / "tocsin").rglob("*.py"))
#: What was measured, and what was once called how, is left as it was written.
_AS_WRITTEN = ("docs/reports/", "docs/glossary.md", "CHANGELOG.md")
_ROW = re.compile(r"^\| (?P<words>[^|]+) \| (?P<instead>[^|]+) \| (?P<where>[^|]+) \|$", re.MULTILINE)


def _banned() -> dict[str, tuple[str, str]]:
    """By word: where it is banned, and what to say instead."""
    table = _GLOSSARY.partition("## Words that are not used")[2]
    rows = [row for row in _ROW.finditer(table) if row["words"].strip() not in ("Not", "---")]
    return {
        word: (row["where"].strip(), row["instead"].strip())
        for row in rows
        for word in re.findall(r"`([^`]+)`", row["words"])
    }


_BANNED = _banned()
_WHERE = {"everywhere", "names", "nouns", "files"}


def test_each_word_is_defined_once() -> None:
    """In any section: a second meaning needs a second word."""
    words = [
        word.strip()
        for row in re.findall(r"^\| \*\*([^*]+)\*\* \|", _GLOSSARY, re.MULTILINE)
        for word in row.lower().split(",")
    ]
    assert len(words) > 100
    assert sorted(words) == sorted(set(words))


def test_no_word_is_both_defined_and_banned() -> None:
    """And each banned word says where it is banned."""
    defined = re.findall(r"^\| \*\*([^*]+)\*\* \|", _GLOSSARY, re.MULTILINE)
    assert len(_BANNED) > 15
    assert {where for where, _ in _BANNED.values()} <= _WHERE
    assert not set(_BANNED) & {word.strip() for row in defined for word in row.lower().split(",")}


def _words(name: str) -> list[str]:
    """
    >>> _words("_ids_by_askKey")
    ['ids', 'by', 'ask', 'key']
    """
    return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)]


def _python_names(tree: ast.AST) -> Iterator[tuple[str, bool, int]]:
    """What is given a name: the name, whether a function has it (they may be verbs), and the line."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name, True, node.lineno
            case ast.ClassDef(name=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                yield name, False, node.lineno
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name, False, node.lineno
            case ast.Dict(keys=keys):  # JSON's fields
                for key in keys:
                    if isinstance(key, ast.Constant) and isinstance(key.value, str) and key.value.isidentifier():
                        yield key.value, False, node.lineno
            case ast.Constant(value=str(text)) if re.fullmatch(r"tocsin_[a-z_]+", text):  # metrics
                yield text, False, node.lineno
            case ast.Call(func=ast.Attribute(attr="Column" | "Table"), args=[ast.Constant(value=str(text)), *_]):
                yield text, False, node.lineno  # SQL


def _faults(name: str, *, is_function: bool) -> list[str]:
    found = []
    for word in dict.fromkeys(_words(name)):
        where, instead = _BANNED.get(word, ("", ""))
        is_whole = name.strip("_").lower() == word
        if where in ("everywhere", "names") or (where == "nouns" and is_whole and not is_function):
            found.append(f"{name}: say {instead}")
    return found


@pytest.mark.parametrize("package", sorted({file.relative_to(ROOT / "src" / "tocsin").parts[0] for file in _SOURCES}))
def test_nothing_is_named_with_a_banned_word(package: str) -> None:
    """Classes, functions, variables, parameters, settings, fields of JSON, columns and metrics."""
    faults = []
    for file in _SOURCES:
        if file.relative_to(ROOT / "src" / "tocsin").parts[0] != package or "migrations" in file.parts:
            continue
        where, instead = _BANNED.get(file.stem, ("", ""))
        if where:
            faults.append(f"{file.relative_to(ROOT)}: say {instead}")
        for name, is_function, line in _python_names(ast.parse(file.read_text())):
            faults += [f"{file.relative_to(ROOT)}:{line} {fault}" for fault in _faults(name, is_function=is_function)]
    assert faults == []


_TYPESCRIPT = sorted((ROOT / "dashboard" / "src").rglob("*.ts*"))
_IDENTIFIER = re.compile(
    r"(?<![\w.'\"/-])(?:const|let|function|class|type|interface)\s+(\w+)|(?<=\.)(\w+)\b|(\w+)(?=\??:)"
)


@pytest.mark.parametrize("file", _TYPESCRIPT, ids=lambda file: file.name)
def test_the_page_says_the_same_words(file: Path) -> None:
    """Its variables, and the fields that it reads."""
    code = re.sub(r"//.*|/\*.*?\*/", "", file.read_text())
    names = {name for found in _IDENTIFIER.findall(code) for name in found if name}
    assert [fault for name in sorted(names) for fault in _faults(name, is_function=False)] == []


def test_messages_and_scenarios_say_the_same_words() -> None:
    """The protocol's description, and the keys of TOML files."""
    yaml = re.findall(
        r"^\s*-?\s*([A-Za-z_]+):", (ROOT / "docs" / "reference" / "asyncapi.yaml").read_text(), re.MULTILINE
    )
    toml = [
        key
        for file in sorted((ROOT / "src").rglob("*.toml"))
        for key in re.findall(r"(?:^|[{,\[])\s*([a-z_]+)\s*[=\]]", file.read_text(), re.MULTILINE)
    ]
    assert len(yaml) > 50
    assert len(toml) > 20
    assert [fault for name in sorted({*yaml, *toml}) for fault in _faults(name, is_function=False)] == []


_TEXTS = [
    *(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
    *_SOURCES,
    *_TYPESCRIPT,
]


def test_texts_do_without_words_that_are_banned_everywhere() -> None:
    """Documentation, docstrings, comments and messages."""
    banned = [word for word, (where, _) in _BANNED.items() if where == "everywhere"]
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, banned))})s?\b", re.IGNORECASE)
    faults = []
    for file in _TEXTS:
        name = file.relative_to(ROOT).as_posix()
        if not name.startswith(_AS_WRITTEN):
            for number, line in enumerate(file.read_text().splitlines(), 1):
                faults += [
                    f"{name}:{number} {found}: say {_BANNED[found.lower()][1]}" for found in pattern.findall(line)
                ]
    assert faults == []
