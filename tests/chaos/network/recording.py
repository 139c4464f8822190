"""What a subscriber process writes down as it happens, and how a history is made of it.

One JSON object per line, handed to the operating system at once: what is written outlives the process.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from chaos.network.history import Got, History, Kind, Life, Position, Tenure, Violation


class Recorder:
    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1)
        self._file.write("\n")  # Whoever wrote before may have been killed in the middle of a line.

    def close(self) -> None:
        self._file.close()

    def write(self, event: str, who: str = "", tenure: int = 0, **more: Any) -> None:
        line = {"event": event, "at_s": time.monotonic(), "who": who, "tenure": tenure, **more}
        self._file.write(json.dumps(line) + "\n")


def replay(lines: Iterable[str], history: History) -> None:
    """Put what was written down into a history."""
    tenures: dict[tuple[str, int], Tenure] = {}
    for text in lines:
        try:
            line = json.loads(text)
        except ValueError:
            continue  # Torn by kill -9, or the empty line between two processes.
        who, at_s = line["who"], line["at_s"]
        tenure = tenures.get((who, line["tenure"]))
        match line["event"]:
            case "subscribed":
                if tenure is None:
                    tenure = Tenure(who, line["permission"], line["channel"], line["topic"])
                    tenures[who, line["tenure"]] = tenure
                    history.tenures.append(tenure)
                tenure.lives.append(Life(at_s, Position.parse(line["position"]), line["brought"]))
            case "got" if tenure is not None:
                tenure.lives[-1].got.append(Got(at_s, Position.parse(line["position"]), line["payload"]))
            case "gone" if tenure is not None:
                tenure.gone.append(line["message"])
            case "away" if tenure is not None:
                tenure.lives[-1].ended_s = at_s
            case "leaving" if tenure is not None:
                tenure.left_s = at_s
            case "unsubscribed" if tenure is not None:
                tenure.unsubscribed_s = at_s
            case "stopped":
                for (other, _), one in tenures.items():
                    one.is_stopped |= other == who and one.left_s is None
            case "stray":
                history.strays.append(f"{who} {line['message']}")
            case "failed":
                history.noticed.append(Violation(Kind.MISBEHAVED, f"{who} ended: {line['message']}"))
            case event:
                raise ValueError(f"{event} for {who} {line['tenure']}, which never subscribed")
