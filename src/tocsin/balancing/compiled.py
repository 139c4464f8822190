"""Compiles loops to machine code where numpy has no operation on whole arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

_P = ParamSpec("_P")
_R = TypeVar("_R")


def compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compiled when first called, and kept on disk for the next process. Strict arithmetic: the same on every run.

    Releases Python's lock, so that other threads run meanwhile: a loop's arrays are its own.
    """
    return cast("Callable[_P, _R]", numba.njit(cache=True, nogil=True)(function))
