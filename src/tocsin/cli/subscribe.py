"""`tocsin subscribe`: notifications of channels, as they come."""

from __future__ import annotations

import asyncio
import secrets
import signal
from collections.abc import Awaitable
from contextlib import suppress
from functools import partial
from typing import Annotated, Any

import httpx
import msgspec
import typer

from tocsin import variables
from tocsin.cli.connecting import DEFAULT_COORDINATOR_URL
from tocsin.cli.terminal import AsJson, err, fail, out, print_json
from tocsin.client import Notification, Snapshot, Subscriber, Subscription
from tocsin.client.shell.coordinator_calls import CoordinatorCalls
from tocsin.errors import (
    HistoryGone,
    InvalidValue,
    NotFound,
    NotGranted,
    StatementError,
    SubscriptionFailed,
    TocsinError,
)
from tocsin.model.catalogue import ParameterValue
from tocsin.model.results import ResultKind
from tocsin.protocol.calls import parse_call

#: Short enough for a waiting person, long enough for a broker that is just starting.
_CONNECT_TIMEOUT_S = 10.0
#: As much of a key as tells the results apart that somebody looks at.
_SHOWN_KEY = 8


def run_subscribe(
    calls: Annotated[
        list[str], typer.Argument(help="Channels, such as 'EmergenciesOfType(etype => \"flood\") WHERE severity >= 3'.")
    ],
    coordinator: Annotated[
        str, typer.Option(envvar=variables.COORDINATOR_URL, help="Address of the coordinator.")
    ] = DEFAULT_COORDINATOR_URL,
    broker: Annotated[
        str,
        typer.Option(help="Connect to this broker only; without it, the coordinator chooses one.", show_default=False),
    ] = "",
    user: Annotated[
        str,
        typer.Option(
            envvar=variables.USER,
            help="Your user name; without one, the command registers a guest.",
            show_default=False,
        ),
    ] = "",
    password: Annotated[
        str,
        typer.Option(
            envvar=variables.PASSWORD,
            help="Your password; the command asks for it if it is needed.",
            show_default=False,
        ),
    ] = "",
    token: Annotated[
        str, typer.Option(envvar=variables.TOKEN, help="Your token, instead of a password.", show_default=False)
    ] = "",
    register: Annotated[bool, typer.Option("--register", help="Register the user if it does not exist yet.")] = False,
    device: Annotated[
        str,
        typer.Option(
            help="A name for this device. Notifications that it misses while it is away are sent later.",
            show_default=False,
        ),
    ] = "",
    count: Annotated[int, typer.Option(min=0, help="End after this many notifications; 0: never.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Subscribe to channels and print notifications as they come. Ctrl-C ends it."""
    try:
        parsed = [parse_call(call) for call in calls]
        if not user and not token:
            user, password, register = f"guest-{secrets.token_hex(8)}", secrets.token_urlsafe(24), True
        elif user and not password and not token:
            password = typer.prompt(f"Password of {user}", hide_input=True)
        who = {"user": user, "password": password, "register": register}
        tell = {"on_history_gone": partial(_tell_gone, as_json), "on_snapshot": partial(_tell_snapshot, as_json)}
        me = _subscriber(coordinator, broker, token, who, device=device, **tell)
        asyncio.run(_follow_until_interrupted(me, parsed, count, as_json))
    except StatementError as exc:
        fail(exc.pointed())
    except TocsinError as exc:
        fail(str(exc))
    except httpx.TransportError as exc:
        fail(
            f"no coordinator answers at {coordinator} ({exc}); "
            "start one with `tocsin coordinator`, or give --coordinator"
        )
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


def _tell_gone(as_json: bool, subscription: Subscription, gone: HistoryGone) -> None:
    if as_json:
        entry = {"type": "history_gone", "channel": subscription.channel, "parameters": subscription.parameters}
        print_json(entry | {"position": gone.earliest, "message": gone.message})
    else:
        err.print(gone.message, style="yellow", markup=False, soft_wrap=True)


def _tell_snapshot(as_json: bool, subscription: Subscription, snapshot: Snapshot) -> None:
    if as_json:
        entry = {"type": "snapshot_end", "channel": subscription.channel, "parameters": subscription.parameters}
        print_json(entry | msgspec.structs.asdict(snapshot))
        return
    more = "" if snapshot.complete else f"; {snapshot.reason or 'more hold, and were left out'}"
    text = f"{subscription}: {snapshot.results} hold{more}; from now on what is new"
    err.print(text, style="dim" if snapshot.complete else "yellow", markup=False, soft_wrap=True)


async def _follow_until_interrupted(
    subscriber: Awaitable[Subscriber],
    parsed: list[tuple[str, dict[str, ParameterValue], str]],
    count: int,
    as_json: bool,
) -> None:
    async with await subscriber as me:
        for channel, parameters, where in parsed:
            await me.subscribe(channel, parameters, where=where)
        if not as_json:
            err.print(f"connected to {me.broker} as {me.name}; waiting", style="dim", markup=False, soft_wrap=True)
        following = asyncio.create_task(_print_all(me, count, as_json))
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, following.cancel)
        # Ending here is no error: printed notifications count as dealt with, and are acknowledged on leaving.
        with suppress(asyncio.CancelledError):
            await following


async def _subscriber(coordinator: str, broker: str, token: str, who: dict[str, Any], **options: Any) -> Subscriber:
    """`who` are user, password, and whether to register them."""
    options["connect_timeout_s"] = _CONNECT_TIMEOUT_S
    if not broker:
        return Subscriber(coordinator=coordinator, token=token, **who, **options)
    if not token:
        if not who["password"]:
            raise InvalidValue("give a token, or user and password")
        calls = CoordinatorCalls(coordinator)
        try:
            token = await calls.token(**who)
        finally:
            await calls.close()
    return Subscriber(broker=broker, token=token, **options)


async def _print_all(me: Subscriber, count: int, as_json: bool) -> None:
    printed = 0
    while True:
        try:
            async for notification in me.notifications():
                _print(notification, as_json)
                printed += 1
                if printed == count:
                    return
            return
        except (SubscriptionFailed, NotFound, NotGranted) as exc:
            if not me.subscriptions:
                raise
            # The others go on.
            if as_json:
                print_json({"type": "failed", "message": exc.message})
            else:
                err.print(exc.message, style="red", markup=False, soft_wrap=True)


def _print(notification: Notification, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "type": "notification",
                "kind": notification.kind,
                "channel": notification.channel,
                "parameters": notification.parameters,
                "position": notification.position,
                "committed_at": notification.committed_at.isoformat(),
                "payload": notification.payload,
            }
            | ({"key": notification.key} if notification.key else {})
        )
        return
    at = notification.committed_at.astimezone().strftime("%H:%M:%S")
    out.print(f"{at} ", style="dim", end="")
    if notification.kind == ResultKind.SNAPSHOT:
        out.print(f"{notification.kind} ", style="cyan", end="")
    out.print(notification.subscription, style="bold", markup=False, end=" ", soft_wrap=True)
    what = "no longer holds" if notification.kind == "exit" else notification.raw_payload.decode()
    out.print(what, markup=False, soft_wrap=True, end=" " if notification.key else "\n")
    if notification.key:
        out.print(notification.key[:_SHOWN_KEY], style="dim", soft_wrap=True)
