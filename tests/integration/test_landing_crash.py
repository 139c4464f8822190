"""The landing log is killed without warning, again and again, and every acknowledged frame is found."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

from tocsin.cluster.feeds.landing import LandingLog, Span
from tocsin.cluster.feeds.reader import LandingReader

ROUNDS = 8
SEGMENT_BYTES = 64 << 10

#: Appends from several threads without pause and prints each frame's number and place once it is acknowledged.
WRITER = """
import itertools, os, sys, threading
from pathlib import Path
from tocsin.cluster.feeds.core.frames import prepare_frame
from tocsin.cluster.feeds.landing import LandingLog

log = LandingLog.open(Path(sys.argv[1]), int(sys.argv[2]))
round_number = sys.argv[3]

def publish(thread):
    for number in itertools.count():
        name = f"{round_number}-{thread}-{number}"
        body = name.encode() + b" " * (number * 37 % 3000)
        span = log.append(
            prepare_frame(feed="f", dataset="D", body=body, count=1, accepted_at_ms=0, key=name)
        ).result()
        os.write(1, f"{name} {span.position} {span.end}\\n".encode())

os.write(1, f"opened {log.end} {log.end}\\n".encode())
for thread in range(4):
    threading.Thread(target=publish, args=(thread,)).start()
"""


def test_kill_9_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """After every kill, all acknowledged frames are where they were said to be, and no position is used twice."""
    chance = random.Random(7)
    acknowledged: dict[str, Span] = {}
    for round_number in range(ROUNDS):
        output = tmp_path / "acknowledged.txt"
        with output.open("wb") as file:
            writer = subprocess.Popen(
                [sys.executable, "-c", WRITER, str(tmp_path / "log"), str(SEGMENT_BYTES), str(round_number)],
                stdout=file,
            )
            try:
                deadline = time.monotonic() + 20
                while output.stat().st_size == 0 and time.monotonic() < deadline:
                    time.sleep(0.005)
                time.sleep(chance.uniform(0.0, 0.25))
            finally:
                writer.kill()
                writer.wait()
        first, *lines = output.read_text().splitlines()
        opened_at = int(first.split()[1])
        # What was acknowledged before was kept, and its places are not given out again.
        assert opened_at >= max((span.end for span in acknowledged.values()), default=0)
        for line in lines:
            name, position, end = line.split()
            assert int(position) >= opened_at
            acknowledged[name] = Span(int(position), int(end))

    log = LandingLog.open(tmp_path / "log", SEGMENT_BYTES)
    found: dict[str, Span] = {}
    position = 0
    while frames := LandingReader(log.directory).read_frames(position):
        for frame in frames:
            assert frame.position == position
            assert frame.body.split(b" ")[0].decode() == frame.key
            found[frame.key] = Span(frame.position, frame.end)
            position = frame.end
    log.close()
    assert len(acknowledged) > 50
    assert {name: found.get(name) for name in acknowledged} == acknowledged
