"""A page is read as a newcomer reads it: files are saved, commands typed in order, and what they print is compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from documentation import Block, blocks_of
from e2e.terminal import PATIENCE_S, Terminal, look_for


class Reader:
    """Reads in `folder`; what it began is closed when the `with` block ends.

    `adapt` changes what is typed and expected, such as ports. What was begun before may be given as `terminals`: a page
    that begins it too means that one.
    """

    def __init__(
        self,
        folder: Path,
        environment: Mapping[str, str],
        adapt: Callable[[str], str] = lambda text: text,
        terminals: Mapping[str, Terminal] | None = None,
    ) -> None:
        self._folder = folder
        self._environment = environment
        self._adapt = adapt
        self._given = dict(terminals or {})
        self._terminals = dict(self._given)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for name, terminal in self._terminals.items():
            if name not in self._given:
                terminal.kill()

    def terminal(self, name: str) -> Terminal:
        return self._terminals[name]

    def save_files(self, page: Path) -> None:
        """Only the files of the page, before anything is typed."""
        for block in blocks_of(page):
            if name := block.mark("file"):
                self._save(name, block)

    def read(self, page: Path) -> int:
        """Do what the page says; how many commands that were."""
        commands = 0
        printed: list[str] | None = None
        for block in blocks_of(page):
            if name := block.mark("file"):
                self._save(name, block)
            elif block.language == "sh" and "run" in block.marks:
                printed = self._run(block)
                commands += 1
                continue
            elif block.language == "sh" and (name := block.mark("begin")):
                self._begin(name, block)
                commands += 1
            elif block.language == "text" and (name := block.mark("from")):
                self._expect(name, block)
            elif block.language == "text" and printed is not None:
                missing, _ = look_for(self._adapt(block.text), printed)
                assert missing is None, f"{block}: {missing!r} was not printed, but\n" + "\n".join(printed)
            printed = None
        return commands

    def _save(self, name: str, block: Block) -> None:
        file = self._folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self._adapt(block.text))

    def _run(self, block: Block) -> list[str]:
        terminal = Terminal(str(block), self._adapt(block.text), self._folder, self._environment)
        code = terminal.finish(PATIENCE_S)
        should_fail = "fails" in block.marks
        assert (code != 0) == should_fail, f"{block} ended with code {code}:\n" + "\n".join(terminal.lines())
        return terminal.lines()

    def _begin(self, name: str, block: Block) -> None:
        command = self._adapt(block.text)
        if name in self._given:
            assert self._given[name].command == command, f"{block}: {name} was begun as {self._given[name].command}"
            return
        assert name not in self._terminals, f"{block}: {name} has been begun before"
        self._terminals[name] = Terminal(name, command, self._folder, self._environment)

    def _expect(self, name: str, block: Block) -> None:
        assert name in self._terminals, f"{block}: nothing was begun as {name}"
        try:
            self._terminals[name].expect(self._adapt(block.text))
        except AssertionError as exc:
            raise AssertionError(f"{block}: {exc}") from exc
