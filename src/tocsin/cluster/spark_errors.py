"""Spark's errors, which come in two kinds, as a line that a person can read."""

from __future__ import annotations

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

#: Most errors are PySpark's own; errors of a running job come unchanged from the Java process.
SPARK_ERRORS = (PySparkException, Py4JJavaError)


#: The words of Python, Java, Arrow and delta-rs for a full disk or quota, or a file that may not grow.
_OUT_OF_ROOM = ("No space left on device", "Disk quota exceeded", "File too large", "os error 28)", "os error 122)")


def is_out_of_room(reason: str) -> bool:
    """Whether something failed because nothing more could be written; it succeeds once there is room again."""
    return any(words in reason for words in _OUT_OF_ROOM)


def reason_of(error: Exception) -> str:
    """The first line of the error's message, or of its cause."""
    if isinstance(error, PySparkException):
        text = error.getMessage() or str(error)
    elif isinstance(error, Py4JJavaError):
        cause = error.java_exception
        text = str(cause.getMessage() or "")
        while (cause := cause.getCause()) is not None:
            text = str(cause.getMessage() or "") or text
    else:
        text = str(error)
    return (text.strip() or type(error).__name__).splitlines()[0]
