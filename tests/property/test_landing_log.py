"""The landing log under random damage and random use."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tocsin.cluster.feeds.core.frames import prepare_frame
from tocsin.cluster.feeds.landing import LandingLog, Span
from tocsin.cluster.feeds.reader import DURABLE_FILE, LandingReader, segment_path, segment_starts
from tocsin.errors import ClusterFailure

pytestmark = pytest.mark.shell

BODIES = st.binary(max_size=60)


def write(directory: Path, groups: Sequence[Sequence[bytes]], start: int = 0) -> list[tuple[Span, bytes]]:
    """Writes one segment as the log would, a group per sync."""
    written, content = [], b""
    for group in groups:
        synced = start + len(content)
        for body in group:
            frame = prepare_frame(feed="f", dataset="D", body=body, count=1, accepted_at_ms=0)
            position = start + len(content)
            content += b"".join(frame.parts_at(position, synced))
            written.append((Span(position, start + len(content)), body))
    segment_path(directory, start).write_bytes(content)
    return written


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_recovery_gives_a_prefix_with_everything_acknowledged_or_names_the_damage(data: st.DataObject) -> None:
    """Cut the last segment anywhere, or flip any bit: no acknowledged frame is ever lost in silence."""
    groups = data.draw(st.lists(st.lists(BODIES, min_size=1, max_size=3), min_size=1, max_size=4))
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        written = write(directory, groups)
        path = segment_path(directory, 0)
        content = path.read_bytes()
        acknowledged_groups = data.draw(st.integers(0, len(groups)), label="acknowledged groups")
        acknowledged = written[: sum(map(len, groups[:acknowledged_groups]))]
        durable = acknowledged[-1][0].end if acknowledged else 0
        (directory / DURABLE_FILE).write_bytes(durable.to_bytes(8, "little"))
        offset = data.draw(st.integers(0, len(content) - 1), label="offset")
        if data.draw(st.booleans(), label="cut"):
            path.write_bytes(content[:offset])
        else:
            bit = 1 << data.draw(st.integers(0, 7), label="bit")
            path.write_bytes(content[:offset] + bytes([content[offset] ^ bit]) + content[offset + 1 :])
        hurt = next(span for span, _ in written if span.end > offset)
        last_sync = written[-len(groups[-1])][0].position
        if hurt.position < durable or (len(path.read_bytes()) == len(content) and hurt.position < last_sync):
            with pytest.raises(ClusterFailure, match=rf"{path.name}, offset {hurt.position} "):
                LandingLog.open(directory, 1 << 20)
            return
        log = LandingLog.open(directory, 1 << 20)
        try:
            found = [(Span(frame.position, frame.end), frame.body) for frame in LandingReader(directory).read_frames(0)]
        finally:
            log.close()
        assert found == [one for one in written if one[0].end <= hurt.position]
        assert found[: len(acknowledged)] == acknowledged


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(BODIES, min_size=1, max_size=3), min_size=2, max_size=4), st.data())
def test_damage_before_the_last_group_is_found_without_the_durable_file(
    groups: list[list[bytes]], data: st.DataObject
) -> None:
    """A power failure may take the published end with it; later frames still prove what had been synced."""
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        written = write(directory, groups)
        earlier = written[: -len(groups[-1])]
        path = segment_path(directory, 0)
        content = bytearray(path.read_bytes())
        offset = data.draw(st.integers(0, earlier[-1][0].end - 1))
        content[offset] ^= 1 << data.draw(st.integers(0, 7))
        path.write_bytes(content)
        hurt = next(span for span, _ in written if span.end > offset)
        with pytest.raises(ClusterFailure, match=f"offset {hurt.position} "):
            LandingLog.open(directory, 1 << 20)


class LandingLogInUse(RuleBasedStateMachine):
    """Append, reopen, crash with an unfinished write and remove in any order: a list is the model."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.log = LandingLog.open(self.directory, 300)
        self.reader = LandingReader(self.directory)
        self.model: list[tuple[Span, bytes]] = []
        self.highest = 0

    @rule(bodies=st.lists(BODIES, min_size=1, max_size=8))
    def append(self, bodies: list[bytes]) -> None:
        frames = [prepare_frame(feed="f", dataset="D", body=b, count=1, accepted_at_ms=0) for b in bodies]
        for body, future in [(b, self.log.append(f)) for b, f in zip(bodies, frames, strict=True)]:
            span = future.result(5)
            assert span.position == self.highest
            self.highest = span.end
            self.model.append((span, body))

    @rule()
    def reopen(self) -> None:
        self.log.close()
        self.log = LandingLog.open(self.directory, 300)

    @rule(body=BODIES, keep=st.integers(0, 100))
    def crash_while_writing(self, body: bytes, keep: int) -> None:
        self.log.close()
        frame = prepare_frame(feed="f", dataset="D", body=body, count=1, accepted_at_ms=0)
        torn = b"".join(frame.parts_at(self.highest, self.highest))[:-1][:keep]
        with segment_path(self.directory, segment_starts(self.directory)[-1]).open("ab") as file:
            file.write(torn)
        self.log = LandingLog.open(self.directory, 300)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        position = data.draw(st.sampled_from(self.model))[0].position
        self.log.remove_before(position)
        first = self.log.first_position
        assert first <= position or len(segment_starts(self.directory)) == 1
        self.model = [one for one in self.model if one[0].position >= first]

    @rule(position=st.integers(0, 1000))
    def mark(self, position: int) -> None:
        self.log.write_mark(position)
        assert self.log.read_mark() == position

    @invariant()
    def readers_see_the_model(self) -> None:
        assert self.log.end == self.reader.end == self.highest
        start = self.model[0][0].position if self.model else self.highest
        found = [(Span(frame.position, frame.end), frame.body) for frame in self.reader.read_frames(start)]
        assert found == self.model
        assert [Span(h.position, h.end) for h in self.log.headers_between(start, self.highest)] == [
            span for span, _ in self.model
        ]

    def teardown(self) -> None:
        self.log.close()
        self.reader.close()
        shutil.rmtree(self.directory)


LandingLogInUse.TestCase.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
TestLandingLogInUse = LandingLogInUse.TestCase
