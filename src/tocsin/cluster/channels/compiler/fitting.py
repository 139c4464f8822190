"""Which subscriptions of a channel go on when another definition takes its place (pure).

A subscription's values are kept by position, so a new definition with the same parameters keeps the order of the old
one. Subscribers give values by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tocsin.cluster.channels.compiler.dialect import Source, tokenize
from tocsin.cluster.channels.compiler.parameters import check_values, signature
from tocsin.errors import InvalidValue
from tocsin.model.catalogue import Channel, FilledBy, ParameterValue
from tocsin.model.schema import ColumnType


def carried_over(before: Channel, after: Channel) -> Channel:
    """The new definition of an existing channel: under its old name, with its retention and, if the parameters are the
    same, in their old order.

    >>> from tocsin.model.catalogue import ChannelKind, Parameter
    >>> one, two = Parameter("a", ColumnType.INT), Parameter("b", ColumnType.STRING)
    >>> before = Channel("Fires", ChannelKind.CONTINUOUS, (one, two), "SELECT 1", retention_s=60.0)
    >>> after = Channel("FIRES", ChannelKind.CONTINUOUS, (two, one), "SELECT 2")
    >>> carried_over(before, after) == replace(before, body="SELECT 2")
    True
    """
    parameters = after.parameters
    if have_same_parameters(before, after):
        by_name = {one.name.lower(): one for one in parameters}
        parameters = tuple(by_name[one.name.lower()] for one in before.parameters)
    return replace(after, name=before.name, parameters=parameters, retention_s=before.retention_s)


def without_layout(channel: Channel) -> Channel:
    """Equal for definitions that differ in white space between words only: white space inside of strings counts, and so
    does the end of a comment. CREATE says nothing of retention.

    >>> from tocsin.model.catalogue import ChannelKind
    >>> one = Channel("Fires", ChannelKind.CONTINUOUS, (), "SELECT  'a b'")
    >>> without_layout(one) == without_layout(replace(one, body="SELECT 'a b'"))
    True
    >>> without_layout(one) == without_layout(replace(one, body="SELECT 'a  b'"))
    False
    """
    once = None if channel.once is None else replace(channel.once, keys=_words(channel.once.keys))
    return replace(channel, name=channel.name.lower(), body=_words(channel.body), once=once, retention_s=None)


def have_same_parameters(before: Channel, after: Channel) -> bool:
    """Whether names, types and what fills them in are the same. Limits may differ."""
    return _kinds(before) == _kinds(after)


def may_go_on(before: Channel, after: Channel, values: Sequence[ParameterValue]) -> bool:
    """Whether a subscription with these values goes on; `after` is as `carried_over` has made it."""
    if not have_same_parameters(before, after):
        return False
    try:
        check_values(after, values)
    except InvalidValue:
        return False
    return True


def all_go_on(before: Channel, after: Channel) -> bool:
    """Whether every subscription goes on, whatever its values: there are no new limits."""
    limits = {one.name.lower(): one.maximum for one in before.parameters}
    return have_same_parameters(before, after) and all(
        one.maximum is None or one.maximum == limits[one.name.lower()] for one in after.parameters
    )


def reason_for_end(channel: Channel) -> str:
    """For those who hold a subscription that ends."""
    return f"channel {channel.name} was replaced, and takes {signature(channel)} now"


def _kinds(channel: Channel) -> dict[str, tuple[ColumnType, FilledBy | None]]:
    return {one.name.lower(): (one.type, one.filled_by) for one in channel.parameters}


def _words(sql: str) -> str:
    return repr([(str(one.token_type), one.text, one.comments) for one in tokenize(Source(sql))])
