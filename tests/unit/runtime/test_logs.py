"""Logs: one line per record, and no secret in any of them."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from tocsin.errors import InvalidValue
from tocsin.runtime.logs import REDACTED, configure_logging, redact_secrets


@pytest.fixture
def output() -> Iterator[io.StringIO]:
    """What was logged; the logging set up before the test is put back after it."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield io.StringIO()
    root.handlers, root.level = handlers, level
    structlog.reset_defaults()
    logging.captureWarnings(capture=False)


def lines(output: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in output.getvalue().splitlines()]


def test_every_logger_writes_json_lines(output: io.StringIO) -> None:
    """Structlog's, the standard library's and uvicorn's records come out in the same form."""
    configure_logging("info", stream=output)
    structlog.get_logger("tocsin.test").info("committed", rows=3)
    logging.getLogger("somewhere").warning("took %d ms", 12)
    logging.getLogger("uvicorn.error").info("Started", extra={"color_message": "\033[36mStarted"})
    committed, took, started = lines(output)
    assert committed["event"] == "committed"
    assert committed["rows"] == 3
    assert committed["level"] == "info"
    assert committed["logger"] == "tocsin.test"
    assert "timestamp" in committed
    assert (took["event"], took["level"]) == ("took 12 ms", "warning")
    assert (started["event"], started["logger"]) == ("Started", "uvicorn.error")
    assert "color_message" not in started


def test_level_is_kept(output: io.StringIO) -> None:
    """What is below the level is not written, whoever says it; chatty libraries start at WARNING."""
    configure_logging("info", stream=output)
    structlog.get_logger("tocsin").debug("no")
    logging.getLogger("httpx").info("HTTP Request: GET /")
    logging.getLogger("uvicorn.access").info("GET /v1/status 200")
    assert lines(output) == []


def test_access_log_when_debugging(output: io.StringIO) -> None:
    """One line per request is there for those who ask for it, without the token in its query."""
    configure_logging("debug", stream=output)
    logging.getLogger("uvicorn.access").info('%s - "%s %s"', "127.0.0.1", "GET", "/v1/status?token=abc123&x=1")
    assert lines(output)[0]["event"] == f'127.0.0.1 - "GET /v1/status?token={REDACTED}&x=1"'


def test_unknown_level_is_refused() -> None:
    """A misspelled level is an error that names the choices."""
    with pytest.raises(InvalidValue, match="no such log level: 'loud'; one of debug, info"):
        configure_logging("loud")


def test_readable_on_request(output: io.StringIO) -> None:
    """The readable form carries the same facts."""
    configure_logging("info", json=False, stream=output)
    structlog.get_logger("tocsin").info("committed", rows=3)
    assert "committed" in output.getvalue()
    assert "rows=3" in output.getvalue()


@pytest.mark.parametrize("as_json", [True, False])
def test_no_secret_in_any_form(output: io.StringIO, as_json: bool) -> None:
    """Secrets are blanked out in values, nested values, headers, texts, arguments and tracebacks."""
    secret = "s3cr3t-v4lue"
    configure_logging("info", json=as_json, stream=output)
    log = structlog.get_logger("tocsin")
    log.info("request", authorization=f"Bearer {secret}", api_token=secret)
    log.info("request", headers={"Authorization": f"Basic {secret}", "Set-Cookie": secret})
    log.info("request", headers=[(b"authorization", f"Bearer {secret}".encode()), ("x-api-key", secret)])
    logging.getLogger("other").warning("sent Authorization: Bearer %s", secret)
    logging.getLogger("other").warning("options %s", {"password": secret})
    logging.getLogger("other").warning("refused", extra={"token": secret})
    try:
        raise ValueError(f"GET http://broker/?token={secret} failed")
    except ValueError:
        log.exception("failed")
    assert secret not in output.getvalue()
    assert output.getvalue().count(REDACTED) >= 8


def test_ordinary_values_are_left_alone() -> None:
    """Nothing but secrets changes."""
    event = {"event": "run", "tokens": 3, "ratio": 0.5, "done": True, "none": None, "names": ["a", "b"]}
    assert redact_secrets(None, "info", dict(event)) == event
