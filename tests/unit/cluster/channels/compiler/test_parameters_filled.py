"""Whether a broker has filled in what the channel has."""

from __future__ import annotations

import pytest

from tocsin.cluster.channels.compiler.parameters import check_class, check_filled
from tocsin.errors import FilledOtherwise, WrongEntries
from tocsin.model.catalogue import Channel, ChannelKind, FilledBy, Parameter
from tocsin.model.schema import ColumnType

_PARAMETERS = (
    Parameter("User_id", ColumnType.STRING, filled_by=FilledBy.USER),
    Parameter("class", ColumnType.STRING, filled_by=FilledBy.CLASS),
    Parameter("topic", ColumnType.STRING),
)
_CHANNEL = Channel("NearMe", ChannelKind.CONTINUOUS, _PARAMETERS, "SELECT 1")


@pytest.mark.parametrize("filled", [(), ("user_id",), ("user_id", "class", "topic"), ("topic",)])
def test_a_broker_that_remembers_another_channel_is_refused(filled: tuple[str, ...]) -> None:
    """It is told what the channel has now, so that it can fill that in; also among many that it asks for at once."""
    with pytest.raises(FilledOtherwise, match="User_id IS USER, class IS CLASS") as refused:
        check_filled(_CHANNEL, filled)
    assert refused.value.filled == {"User_id": "USER", "class": "CLASS"}
    (entry,) = WrongEntries("one is wrong", {3: refused.value}).details()["wrong"]
    assert (entry["index"], entry["code"], entry["filled"]) == (3, "filled_otherwise", refused.value.filled)
    check_filled(_CHANNEL, ("USER_ID", "Class"))


def test_what_is_the_class_has_its_value() -> None:
    """The cluster knows the class of a subscription, so it need not believe a parameter that says otherwise."""
    check_class(_CHANNEL, ("ann", "medics", "fire"), "medics")
    with pytest.raises(FilledOtherwise, match="class is the permission class, '', not 'medics'") as refused:
        check_class(_CHANNEL, ("ann", "medics", "fire"), "")
    assert refused.value.filled == {"User_id": "USER", "class": "CLASS"}, "so that the broker fills it in with that"
