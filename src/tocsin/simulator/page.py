"""HTML of one self-contained file: no script, nothing fetched, readable in light and dark.

Text arguments are escaped; only the results of these functions are taken as HTML.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 78rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
table { border-collapse: collapse; font-size: .87rem; margin: .8rem 0; }
th, td { text-align: left; vertical-align: top; padding: .3rem .7rem .3rem 0; border-bottom: 1px solid var(--line); }
td { overflow-wrap: anywhere; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
td.number { white-space: nowrap; }
.wide { overflow-x: auto; }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(30rem, 100%), 1fr)); gap: 1rem; }
figure { margin: 0; padding: .6rem; background: var(--soft); border-radius: 6px; }
figure svg { width: 100%; height: auto; display: block; }
figcaption { font-size: .82rem; opacity: .8; }
summary { cursor: pointer; font-weight: 600; margin: 1rem 0 .5rem; }
code { font-size: .87em; }
.yes { color: light-dark(#15803d, #4ade80); font-weight: 600; }
.no { color: light-dark(#b91c1c, #f87171); font-weight: 600; }
""".strip()


def page(title: str, parts: Iterable[str]) -> str:
    return (
        "<!doctype html>\n"
        '<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        """<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">\n"""
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>\n{_STYLE}\n</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n" + "\n".join(parts) + "\n</body>\n</html>\n"
    )


def heading(text: str) -> str:
    return f"<h2>{escape(text)}</h2>"


def paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def command(text: str) -> str:
    return f"<p><code>{escape(text)}</code></p>"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[str] = ()) -> str:
    """`numbers` are the columns that hold figures; a cell that is just yes or no is coloured."""
    marks = [' class="number"' if column in numbers else "" for column in columns]
    head = "".join(f"<th{mark}>{escape(column)}</th>" for mark, column in zip(marks, columns, strict=True))
    body = "\n".join(
        "<tr>" + "".join(_cell(mark, value) for mark, value in zip(marks, row, strict=True)) + "</tr>" for row in rows
    )
    return f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>'


def _cell(mark: str, value: str) -> str:
    if value in {"yes", "no"}:
        mark = f' class="{value}"'
    return f"<td{mark}>{escape(value)}</td>"


def pictures(svgs: Iterable[str], captions: Sequence[str] = ()) -> str:
    """Side by side where there is room."""
    captions_html = [f"<figcaption>{escape(caption)}</figcaption>" for caption in captions]
    shown = [
        f"<figure>{svg}{captions_html[number] if number < len(captions_html) else ''}</figure>"
        for number, svg in enumerate(svgs)
    ]
    return '<div class="pictures">\n' + "\n".join(shown) + "\n</div>"


def folded(title: str, parts: Iterable[str], *, is_open: bool) -> str:
    """A part that readers open if they want to."""
    return (
        f"<details{' open' if is_open else ''}><summary>{escape(title)}</summary>\n" + "\n".join(parts) + "\n</details>"
    )
