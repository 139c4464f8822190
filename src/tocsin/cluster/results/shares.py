"""Results by how long they are kept: those of channels with a retention of their own, and all others.

A result is removed together with all results of its share up to the same number, so that of one subscription's history
always the beginning is missing, never a piece in between.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

#: How a payload begins. Other results say why a subscription has failed or ended. They are kept as long as the cluster
#: keeps results, whatever their channel: a broker that was away for longer than that must still hear of it.
_PAYLOAD = "{"


@dataclass(frozen=True, slots=True)
class Share:
    """The results of some channels or, if `is_rest`, all but the results of these channels."""

    channels: tuple[str, ...]
    is_rest: bool

    @property
    def rows(self) -> ds.Expression:
        """For Arrow. There is always a rest; a share of named channels has some."""
        if not self.channels:
            return ds.scalar(True)
        # Files that Delta has rewritten say that their texts are of another type.
        channel, payload = (ds.field(name).cast(pa.string()) for name in ("channel", "payload"))
        own = channel.isin(pa.array(self.channels, pa.string())) & pc.starts_with(payload, _PAYLOAD)
        return ~own if self.is_rest else own

    @property
    def predicate(self) -> str:
        """The same in SQL; empty if it is everything."""
        if not self.channels:
            return ""
        listed = ", ".join("'" + name.replace("'", "''") + "'" for name in self.channels)
        own = f"(channel IN ({listed}) AND payload LIKE '{_PAYLOAD}%')"
        return f"NOT {own}" if self.is_rest else own


def shares_of(oldest_us: int, by_channel: Mapping[str, int]) -> dict[Share, int]:
    """The shares, and the time before which results of each are removed.

    >>> shares_of(10, {"A": 20, "B": 15, "C": 20})
    {Share(channels=('B',), is_rest=False): 15, Share(channels=('A', 'C'), is_rest=False): 20, \
Share(channels=('A', 'B', 'C'), is_rest=True): 10}
    """
    by_time: dict[int, list[str]] = {}
    for name, at_us in by_channel.items():
        by_time.setdefault(at_us, []).append(name)
    own = {Share(tuple(sorted(names)), is_rest=False): at_us for at_us, names in sorted(by_time.items())}
    return {**own, Share(tuple(sorted(by_channel)), is_rest=True): oldest_us}
