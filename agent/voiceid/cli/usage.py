"""What is wrong with an argument, in the words of this package, whatever checked it."""

from __future__ import annotations

import re
from typing import Any

import typer

_FRAME = re.compile(r"Invalid value(?: for (?P<parameter>.+?))?: (?P<message>.*)", re.DOTALL)


def usage_message(error: typer.BadParameter) -> str:
    """``error`` as one sentence that begins with the argument, where it is not about several.

    Typer and the library that checks values for it put their own words before and into what they found.
    """
    framed = _FRAME.fullmatch(error.format_message())
    if framed is None:
        return error.format_message()
    parameter, message = framed["parameter"], framed["message"]
    found = getattr(error.__cause__, "errors", None)
    if parameter is None or found is None:
        return message if parameter is None else f"{_bare(parameter)}: {message}"
    return _of_value(_bare(parameter), found()[0])


def _of_value(parameter: str, found: dict[str, Any]) -> str:
    """What ``found``, an entry of the checking library's list of errors, says of the value of ``parameter``."""
    kind, limits, value = found["type"], found.get("ctx", {}), found["input"]
    if kind == "value_error":
        return f"{parameter}: {str(limits['error']).rstrip('.')}"
    if kind.startswith("int"):
        wanted = "a whole number"
    elif kind.startswith("float"):
        wanted = "a number"
    elif kind == "greater_than_equal":
        wanted = f"at least {limits['ge']:g}"
    elif kind == "less_than_equal":
        wanted = f"at most {limits['le']:g}"
    else:
        return f"{parameter}: {value!r} cannot be used"
    return f"{parameter} is {value!r}; it must be {wanted}"


def _bare(parameter: str) -> str:
    """``'-o' / '--output'`` as ``-o / --output``."""
    return parameter.replace("'", "")
