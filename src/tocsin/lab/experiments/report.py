"""Reports of experiments: claims.json, report.html, and report.md with its pictures beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tocsin.lab.experiments.claim import Finding
from tocsin.simulator import page
from tocsin.simulator.outputs import json_bytes, prepared_folder, write_file
from tocsin.simulator.pictures import standalone

_COLUMNS = ["id", "claim", "source", "the paper's value", "measured", "holds"]


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
    """The first column tells rows apart; the others are figures, except `texts`. `about` is said before it."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    about: str = ""
    texts: Sequence[str] = ()

    @property
    def numbers(self) -> list[str]:
        return [column for column in self.columns[1:] if column not in self.texts]


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
    """How many claims hold, by kind: the paper's, checks of the set-up, and ours."""
    counts = {kind: [one.holds for one in findings if one.kind == kind] for kind in ("paper", "ours", "set-up")}
    called = {"paper": "claims of the paper", "ours": "claims of ours", "set-up": "checks of the set-up"}
    texts = [f"{sum(some)} of {len(some)} {called[kind]}" for kind, some in counts.items() if some]
    return f"{' and '.join([', '.join(texts[:-1]), texts[-1]] if texts[1:] else texts)} hold."


def _row(finding: Finding) -> list[str]:
    measured = f"{finding.measured}. {finding.why}".strip()
    holds = "yes" if finding.holds else "no"
    if finding.seeds > 1:
        holds += f", for {finding.held} of {finding.seeds} seeds"
    says = f"(set-up) {finding.claim}" if finding.kind == "set-up" else finding.claim
    return [finding.id, says, finding.source, finding.paper or "–", measured, holds]


def _html(report: Report) -> str:
    parts = [
        *map(page.paragraph, report.about),
        page.command(report.command),
        page.table(_COLUMNS, [_row(finding) for finding in report.findings]),
    ]
    for figure in report.figures:
        parts += [page.heading(figure.heading), page.pictures(figure.pictures.values())]
    for table in report.tables:
        parts.append(page.heading(table.title))
        if table.about:
            parts.append(page.paragraph(table.about))
        parts.append(page.table(table.columns, table.rows, numbers=table.numbers))
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
        lines += ["", f"## {table.title}", ""]
        if table.about:
            lines += [table.about, ""]
        lines += _markdown_table(table.columns, table.rows)
    return "\n".join(lines) + "\n"


def _markdown_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    return [line(columns), line(["---"] * len(columns)), *map(line, rows)]
