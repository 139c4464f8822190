"""What Spark says when it can't: its errors, which come in two kinds, in a line that a person can read."""

from __future__ import annotations

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

#: Most errors are PySpark's own; those of a running job come as they left the Java process.
SPARK_ERRORS = (PySparkException, Py4JJavaError)


def reason_of(error: Exception) -> str:
    """The first line of what the error says, or of what caused it."""
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
