"""What a simulation leaves in a folder."""

import json
import re
from pathlib import Path

import matplotlib as mpl
import pyarrow.parquet as pq
import pytest

from tocsin.errors import InvalidValue
from tocsin.simulator.outputs import report, summary, write_outputs
from tocsin.simulator.pictures import bars_picture
from tocsin.simulator.timeline import Run
from worlds.made_runs import made_plan, made_run

pytestmark = pytest.mark.shell


def uneven() -> Run:
    return made_run([[4e6, 2e6], [6e6, 2e6], [9e6, 3e6]], label="off", subscribers=[30, 10])


def evened() -> Run:
    return made_run(
        [[4e6, 2e6], [6e6, 2e6], [6e6, 6e6]],
        label="ldm",
        subscribers=[20, 20],
        plans=[made_plan(60.0, moves=10)],
        migration="ldm",
    )


def test_summary_figures() -> None:
    """A summary has each run's settings, figures, brokers and plans, and is plain JSON."""
    one, two = json.loads(json.dumps(summary([uneven(), evened()])))["runs"]
    assert one["name"] == "off"
    assert one["settings"]["migration"] == ""
    # The second half of two minutes is its samples at one and at two: both brokers are half of the mean away from it.
    assert one["figures"]["later_cov"] == pytest.approx(0.5)
    assert one["figures"]["final_max_score"] == 9e6
    assert one["figures"]["peak_max_score"] == 9e6
    assert one["figures"]["final_mean_score"] == 6e6
    assert [broker["subscribers"] for broker in one["brokers"]] == [30, 10]
    assert two["figures"]["final_cov"] == 0
    assert two["figures"]["migrations"] == two["totals"]["migrations"] == 10
    assert [plan["policy"] for plan in two["plans"]] == ["ldm"]


def test_equal_runs_make_equal_bytes(tmp_path: Path) -> None:
    """Nothing of the moment, the folder or the user's own drawing settings is in the files."""
    first = write_outputs([uneven(), evened()], tmp_path / "one")
    with mpl.rc_context({"lines.linewidth": 9, "savefig.pad_inches": 3}):
        second = write_outputs([uneven(), evened()], tmp_path / "two" / "deep")
    assert [path.name for path in first] == ["result.json", "timeline.parquet", "report.html"]
    for one, two in zip(first, second, strict=True):
        assert one.read_bytes() == two.read_bytes()
        assert str(tmp_path) not in one.read_bytes().decode("latin-1")
    assert sorted(path.name for path in (tmp_path / "one").iterdir()) == sorted(path.name for path in first)
    assert b"\r" not in first[2].read_bytes()


def test_drawing_leaves_the_settings_alone() -> None:
    """Whoever draws with matplotlib in the same process is not disturbed."""
    before = dict(mpl.rcParams)
    report([uneven()])
    assert dict(mpl.rcParams) == before


def test_timeline_rows(tmp_path: Path) -> None:
    """A row for each run, sample and broker, with the network's figures in each."""
    write_outputs([uneven(), evened()], tmp_path)
    rows = pq.read_table(tmp_path / "timeline.parquet").to_pylist()
    assert len(rows) == 2 * 3 * 2
    assert rows[-1] == {
        "run": "ldm",
        "time_s": 120.0,
        "broker": "broker-1",
        "capacity": 1.0,
        "subscribers": 20,
        "load_bytes_per_s": 6e6,
        "score": 6e6,
        "in_bytes": 6e6 * 20,
        "out_bytes": 6e6 * 40,
        "deliveries": 7,
        "cov": 0.0,
        "mean_score": 6e6,
        "max_score": 6e6,
        "migrations": 10,
    }


def test_report_fetches_nothing_and_runs_nothing() -> None:
    """It can be opened anywhere, offline."""
    text = report([uneven(), evened()])
    assert "http://" not in text
    assert "https://" not in text
    assert "<script" not in text
    assert not re.search(r"(src|href)=\"(?!#)", text)
    assert text.count("<svg ") == 3 + 2 * 2


def test_report_escapes_what_it_was_handed() -> None:
    """A label is text, in tables and in pictures, whatever it looks like."""
    text = report([made_run([[1.0, 2.0]] * 3, label="<b>$x_$ & _</b>"), made_run([[1.0, 2.0]] * 3, label="_hidden")])
    assert "<b>" not in text
    assert "&lt;b&gt;$x_$ &amp; _&lt;/b&gt;" in text
    # In the table, in the heading and in the legends of three pictures.
    assert text.count("_hidden") == 5


def test_long_runs_make_small_reports() -> None:
    """A day in samples of a second is still a page that opens at once, and no peak is lost on the way."""
    loads = [[1e6 + number % 97, 2e6 + number % 89, 3e6] for number in range(20_000)]
    loads[12_345][2] = 9e9
    text = report([made_run(loads, step_s=1.0)])
    assert len(text) < 300_000
    assert "GB/s" in text


def test_figures_in_pictures_are_told_in_full() -> None:
    """Coordinates are rounded; what is read off a picture is not."""
    assert ">0.25<" in bars_picture("", {"one": {"": 0.25}}, "")


def test_runs_of_the_same_label_are_told_apart() -> None:
    names = [run["name"] for run in summary([uneven(), uneven(), uneven()])["runs"]]
    assert names == ["off", "off (2)", "off (3)"]


def test_a_file_in_the_way_is_refused(tmp_path: Path) -> None:
    """And left as it is."""
    (tmp_path / "taken").write_text("mine")
    for folder in (tmp_path / "taken", tmp_path / "taken" / "deeper"):
        with pytest.raises(InvalidValue, match="a file in its way"):
            write_outputs([uneven()], folder)
    assert (tmp_path / "taken").read_text() == "mine"


def test_a_run_without_samples_is_reported() -> None:
    """A scenario of no length is odd, not an error."""
    empty = made_run([[1.0]])
    empty = type(empty)(**{name: getattr(empty, name) for name in empty.__slots__} | {"samples": ()})
    assert summary([empty])["runs"][0]["figures"]["final_cov"] == 0
    assert "<svg " in report([empty])
