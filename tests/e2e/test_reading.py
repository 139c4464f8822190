"""Pages are really tried: what a page gets wrong is noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.reading import Reader

pytestmark = pytest.mark.shell

_PAGE = """
```sh file words.sh
echo one two; echo three
sleep 0.1; echo four
```

```sh run
sh words.sh
```

It says

```text
one   …
four
```

```sh begin other
sh words.sh; tail -f /dev/null
```

```text from other
three
```

and then

```text from other
four
```

```sh run fails
exit 3
```
"""


def read(folder: Path, text: str) -> int:
    page = folder / "page.md"
    page.write_text(text)
    with Reader(folder, {}) as reader:
        return reader.read(page)


def test_a_true_page_is_read_to_the_end(tmp_path: Path) -> None:
    """Files are saved, commands run, terminals followed; `…` stands for anything."""
    assert read(tmp_path, _PAGE) == 3


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("one   …", "one", "'one' was not printed"),
        ("four\n```\n\n```sh begin", "four\nthree\n```\n\n```sh begin", "'three' was not printed"),
        ("sh words.sh\n```\n\nIt", "sh words.sh; false\n```\n\nIt", "ended with code 1"),
        ("exit 3", "exit 0", "ended with code 0"),
        ("begin other\nsh words.sh; tail -f /dev/null", "begin other\nfalse", "ended without printing 'three'"),
        ("from other\nthree", "from another\nthree", "nothing was begun as another"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, before: str, after: str, message: str) -> None:
    assert before in _PAGE
    with pytest.raises(AssertionError, match=r"page\.md:\d+.*" + message):
        read(tmp_path, _PAGE.replace(before, after))
