"""A location: metres east and north of the origin that an application has chosen."""

from __future__ import annotations

Location = tuple[float, float]
