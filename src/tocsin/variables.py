"""Names of environment variables (pure): each has one meaning, and an unknown name is an error.

A setting's variable names its process: `TOCSIN_CLUSTER_PORT`, `TOCSIN_BROKER_PORT`. Commands read a few
variables of their own, `COMMANDS`.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping

from tocsin.errors import InvalidValue

PREFIX = "TOCSIN_"

CLUSTER_URL = "TOCSIN_CLUSTER_URL"
CLUSTER_TOKEN = "TOCSIN_CLUSTER_TOKEN"  # noqa: S105 - a name
COORDINATOR_URL = "TOCSIN_COORDINATOR_URL"
COORDINATOR_TOKEN = "TOCSIN_COORDINATOR_TOKEN"  # noqa: S105 - a name
USER = "TOCSIN_USER"
PASSWORD = "TOCSIN_PASSWORD"  # noqa: S105 - a name
TOKEN = "TOCSIN_TOKEN"  # noqa: S105 - a name
#: `tocsin up` gives it to the processes that it starts, to recognise them.
RUN = "TOCSIN_RUN"

#: Variables that are no process's setting, and their meaning.
COMMANDS: Mapping[str, str] = {
    CLUSTER_URL: "the data cluster's address, for commands",
    CLUSTER_TOKEN: "the API token that commands show to the data cluster",
    COORDINATOR_URL: "the coordinator's address, for commands",
    COORDINATOR_TOKEN: "the API token that commands show to the coordinator",
    USER: "who subscribes",
    PASSWORD: "that user's password",
    TOKEN: "that user's token, instead of a password",
    RUN: "set by `tocsin up` for the processes that it starts",
}


def variable_of(process: str, setting: str) -> str:
    """The variable of a process's setting.

    >>> variable_of("broker", "port")
    'TOCSIN_BROKER_PORT'
    """
    return f"{PREFIX}{process}_{setting}".upper()


def check_variables(names: Iterable[str], settings: Mapping[str, Collection[str]]) -> None:
    """Raises InvalidValue for the first of `names` that looks like ours and is not; `settings` are each process's.

    >>> check_variables(["HOME", "TOCSIN_CLUSTER_PROT"], {"cluster": ["port"]})
    Traceback (most recent call last):
    tocsin.errors.InvalidValue: environment variable TOCSIN_CLUSTER_PROT is not known; did you mean TOCSIN_CLUSTER_PORT?
    """
    known = {variable_of(process, setting) for process, own in settings.items() for setting in own} | set(COMMANDS)
    unknown = sorted(name for name in names if name.startswith(PREFIX) and name not in known)
    if unknown:
        nearest = _nearest(unknown[0], known, settings)
        hint = f"did you mean {' or '.join(nearest)}?" if nearest else "docs/reference/settings.md lists all"
        raise InvalidValue(f"environment variable {unknown[0]} is not known; {hint}")


def _nearest(name: str, known: Collection[str], processes: Iterable[str]) -> list[str]:
    """The variables that were probably meant: those that only lack the process, otherwise one that reads alike."""
    rest = name.removeprefix(PREFIX)
    without_process = [one for process in processes if (one := variable_of(process, rest)) in known]
    for_people = sorted(one.removeprefix(PREFIX) for one in known if one != RUN)
    return without_process or [PREFIX + one for one in difflib.get_close_matches(rest, for_people, n=1)]
