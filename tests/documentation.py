"""The blocks of the documentation's pages, and what their marks say.

The words behind a fence are the language, then marks:

* ```` ```sql fragment ```` need not parse; ```` ```python run ```` is run by itself.
* ```` ```LANGUAGE file NAME ```` is a file that the reader saves under that name.
* ```` ```sh run ```` is typed by the reader, and ends by itself; ```` ```sh run fails ```` ends with an error.
  A ```` ```text ```` block that comes next is what it prints.
* ```` ```sh begin NAME ```` goes on in a terminal of its own; ```` ```text from NAME ```` is what that prints next.

Blocks without marks are for the eye.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])

FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    #: The words behind the language.
    marks: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        page = self.page.relative_to(ROOT) if self.page.is_relative_to(ROOT) else self.page
        return f"{page}:{self.line}"

    def mark(self, word: str) -> str | None:
        """What comes after the word: "" if nothing does, None if the word is not there."""
        if word not in self.marks:
            return None
        return next(iter(self.marks[self.marks.index(word) + 1 :]), "")


def blocks_of(page: Path) -> list[Block]:
    """In the order in which they stand on the page."""
    text = page.read_text()
    found = []
    for match in FENCE.finditer(text):
        language, *marks = match["info"].split() or [""]
        found.append(Block(page, text.count("\n", 0, match.start()) + 1, language, tuple(marks), match["text"]))
    return found


def blocks(language: str) -> list[Block]:
    """Those of all pages."""
    return [block for page in PAGES for block in blocks_of(page) if block.language == language]
