"""What makes two backend subscriptions the same (pure)."""

from __future__ import annotations

from typing import NewType

#: A subscription key as one text: the JSON of [channel, parameters, permission], with parameters in order. Equal texts
#: are the same subscription, and 1, 1.0 and true stay three values.
KeyText = NewType("KeyText", str)
