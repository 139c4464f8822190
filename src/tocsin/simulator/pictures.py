"""Pictures as SVG text: lines over time, and bars. They take the text colour of their page.

The same figures make the same bytes at any time on any machine: there are no dates and no chance, and matplotlib's own
state is not changed.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Text is drawn in this colour, which nothing else has, and then gets the colour of the page's text.
_INK = "#010203"
#: Distinct from each other on white as well as on near-black.
_COLOURS = (
    "#3b82f6", "#f97316", "#22a565", "#e5484d", "#8b5cf6", "#a16207", "#ec4899", "#64748b", "#b59a00", "#0ea5b7",
)  # fmt: skip
#: A picture is 600 points wide: more points in a line could not be seen.
_MOST_POINTS = 300
_WIDTH_IN = 6.4
#: With more lines than this there is no legend: it would be larger than the picture.
_MOST_NAMED = 12
_STYLE: Any = {
    "svg.hashsalt": "tocsin",
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "axes.formatter.useoffset": False,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "axes.titlecolor": _INK,
}
#: Coordinates in the picture, as opposed to figures that it shows.
_COORDINATES = re.compile(r'(?<=\s)(?:d|x|y|transform)="[^"]*"')
_NUMBER = re.compile(r"-?\d+\.\d{2,}")
_XMLNS = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'


@dataclass(frozen=True, slots=True)
class Line:
    label: str
    xs: Sequence[float]
    ys: Sequence[float]
    is_dashed: bool = False


def lines_picture(title: str, lines: Sequence[Line], x_label: str, y_label: str, *, marks: Sequence[float] = ()) -> str:
    """Lines over a common axis; `marks` are vertical lines at the moments of events."""
    with _style():
        figure, axes = _figure(title)
        for number, line in enumerate(lines):
            xs, ys = thinned(line.xs, line.ys)
            axes.plot(
                xs,
                ys,
                color=_COLOURS[number % len(_COLOURS)],
                linestyle="--" if line.is_dashed or number >= len(_COLOURS) else "-",
                linewidth=1.3,
                marker="o" if len(xs) < 12 else "",
                markersize=3.5,
            )
        for mark in marks:
            axes.axvline(mark, color=_INK, alpha=0.5, linewidth=0.8, linestyle=":")
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        axes.set_ylim(bottom=0)
        axes.margins(x=0.01)
        if 1 < len(lines) <= _MOST_NAMED:
            _legend(axes, [line.label for line in lines], axes.get_lines()[: len(lines)])
        return _svg(figure)


def bars_picture(title: str, groups: Mapping[str, Mapping[str, float]], y_label: str) -> str:
    """One group of bars after another; bars of the same name have the same colour in all of them."""
    names = list(dict.fromkeys(name for bars in groups.values() for name in bars))
    with _style():
        figure, axes = _figure(title)
        width = 0.8 / max(1, len(names))
        handles = []
        for number, name in enumerate(names):
            at = [
                group + (number - (len(names) - 1) / 2) * width
                for group, bars in enumerate(groups.values())
                if name in bars
            ]
            drawn = axes.bar(
                at,
                [bars[name] for bars in groups.values() if name in bars],
                width * 0.92,
                color=_COLOURS[number % len(_COLOURS)],
            )
            axes.bar_label(drawn, fmt=short_number, fontsize=7, padding=1)
            handles.append(drawn)
        axes.set_xticks(range(len(groups)), list(groups))
        axes.set_ylabel(y_label)
        axes.margins(y=0.12)
        if len(names) > 1:
            _legend(axes, names, handles)
        return _svg(figure)


def thinned(xs: Sequence[float], ys: Sequence[float]) -> tuple[list[float], list[float]]:
    """No more points than can be seen: the lowest and the highest of each stretch, so that no peak is lost.

    >>> xs, ys = thinned(range(100_000), [0.0] * 99_999 + [7.0])
    >>> len(xs) <= 302, max(ys)
    (True, 7.0)
    """
    if len(xs) <= _MOST_POINTS:
        return list(xs), list(ys)
    stretch = -(-len(xs) // (_MOST_POINTS // 2))
    kept = {0, len(xs) - 1}
    for start in range(0, len(xs), stretch):
        numbers = range(start, min(start + stretch, len(xs)))
        kept.add(min(numbers, key=ys.__getitem__))
        kept.add(max(numbers, key=ys.__getitem__))
    return [xs[number] for number in sorted(kept)], [ys[number] for number in sorted(kept)]


def short_number(value: float) -> str:
    """
    >>> [short_number(value) for value in (0, 0.1234, 4.56, 1234.5)]
    ['0', '0.12', '4.6', '1,234']
    """
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 1 else f"{value:.2f}"


def byte_unit(largest: float) -> tuple[float, str]:
    """The divisor and the unit with which the largest figure has a few digits.

    >>> byte_unit(25_000_000)
    (1000000.0, 'MB')
    """
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if largest >= factor:
            return factor, unit
    return 1.0, "B"


def standalone(svg: str) -> str:
    """The picture as a separate file, which has no page to take its colours from."""
    root = f'<svg {_XMLNS} style="color: #1f2328; background: #fff" '
    return '<?xml version="1.0" encoding="utf-8"?>\n' + svg.replace("<svg ", root, 1)


def _style() -> Any:
    import matplotlib as mpl

    # Begin with matplotlib's own defaults: the user's settings would make other bytes.
    defaults: Any = {key: mpl.rcParamsDefault[key] for key in mpl.rcParamsDefault if "backend" not in key}
    return mpl.rc_context({**defaults, **_STYLE})


def _figure(title: str) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(_WIDTH_IN, 3.2))
    # Fixed margins: a layout engine would take as long again as drawing does.
    figure.subplots_adjust(left=0.11, right=0.98, top=0.9, bottom=0.15)
    figure.patch.set_visible(False)
    axes = figure.add_subplot()
    axes.patch.set_visible(False)
    axes.set_title(title, fontsize=10, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(visible=True, axis="y", color=_INK, alpha=0.12, linewidth=0.6)
    axes.set_axisbelow(True)
    return figure, axes


def _legend(axes: Axes, labels: Sequence[str], handles: Sequence[Any]) -> None:
    # A label that begins with an underscore would be left out.
    shown = [f"\u200b{label}" if label.startswith("_") else label for label in labels]
    legend_in = (40 + 5.2 * max(map(len, labels))) / 72
    axes.figure.subplots_adjust(right=max(0.5, 1 - legend_in / _WIDTH_IN))
    axes.legend(handles, shown, loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8, frameon=False)


def _svg(figure: Figure) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg ") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r' xmlns(:xlink)?="[^"]*"', "", text).replace("xlink:href", "href")
    # Groups are named the same in every picture, and nothing refers to their names.
    text = re.sub(r'<g id="[^"]*"', "<g", text)
    text = re.sub(r"<!--.*?-->\s*", "", text, flags=re.DOTALL)
    text = _COORDINATES.sub(lambda found: _NUMBER.sub(_rounded, found[0]), text)
    return re.sub(r"\n\s*", "\n", text.replace(_INK, "currentColor")).strip() + "\n"


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):.1f}".removesuffix(".0")
