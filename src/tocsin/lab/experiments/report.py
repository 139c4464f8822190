"""Reports of experiments: claims.json, report.html, and report.md with its pictures beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tocsin.lab.experiments.claim import OURS, Finding
from tocsin.simulator import page
from tocsin.simulator.outputs import json_bytes, prepared_folder, write_file
from tocsin.simulator.pictures import standalone

_COLUMNS = ["id", "claim", "source", "measured", "holds"]


@dataclass(frozen=True, slots=True)
class PaperFigure:
    """`pictures` are SVG texts by what their files are to be called."""

    number: str
    title: str
    pictures: dict[str, str]

    @property
    def heading(self) -> str:
        return f"Figure {self.number}: {self.title}" if self.number.isdigit() else self.title


@dataclass(frozen=True, slots=True)
class Table:
    """The first column tells rows apart; the others are figures."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Report:
    """`command` is what made it, so that readers can."""

    title: str
    about: Sequence[str]
    command: str
    findings: Sequence[Finding]
    figures: Sequence[PaperFigure]
    tables: Sequence[Table]


def write_report(report: Report, claims: Mapping[str, Any], folder: Path) -> list[Path]:
    prepared_folder(folder)
    written = [
        write_file(folder / "claims.json", json_bytes(claims)),
        write_file(folder / "report.html", _html(report).encode()),
        write_file(folder / "report.md", _markdown(report).encode()),
    ]
    pictures = prepared_folder(folder / "pictures")
    written += [
        write_file(pictures / f"{name}.svg", standalone(svg).encode())
        for figure in report.figures
        for name, svg in figure.pictures.items()
    ]
    return written


def tally(findings: Sequence[Finding]) -> str:
    """How many claims hold, the paper's and ours apart."""
    theirs = [finding.holds for finding in findings if finding.source != OURS]
    ours = [finding.holds for finding in findings if finding.source == OURS]
    return f"{sum(theirs)} of {len(theirs)} claims of the paper hold, and {sum(ours)} of {len(ours)} of ours."


def _row(finding: Finding) -> list[str]:
    measured = f"{finding.measured}. {finding.why}".strip()
    return [finding.id, finding.claim, finding.source, measured, "yes" if finding.holds else "no"]


def _html(report: Report) -> str:
    parts = [
        *map(page.paragraph, report.about),
        page.command(report.command),
        page.table(_COLUMNS, [_row(finding) for finding in report.findings]),
    ]
    for figure in report.figures:
        parts += [page.heading(figure.heading), page.pictures(figure.pictures.values())]
    for table in report.tables:
        parts += [page.heading(table.title), page.table(table.columns, table.rows, numbers=table.columns[1:])]
    return page.page(report.title, parts)


def _markdown(report: Report) -> str:
    lines = [f"# {report.title}", ""]
    for text in report.about:
        lines += [text, ""]
    lines += ["```sh", report.command, "```", ""]
    lines += _markdown_table(_COLUMNS, [_row(finding) for finding in report.findings])
    for figure in report.figures:
        lines += ["", f"## {figure.heading}", ""]
        lines += [f"![{figure.title}](pictures/{name}.svg)" for name in figure.pictures]
    for table in report.tables:
        lines += ["", f"## {table.title}", "", *_markdown_table(table.columns, table.rows)]
    return "\n".join(lines) + "\n"


def _markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    return [line(columns), line(["---"] * len(columns)), *map(line, rows)]
