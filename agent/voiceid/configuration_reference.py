"""``python -m voiceid.configuration_reference > docs/configuration.md``: every setting, for people."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import json
import sys
import types
import typing
from pathlib import Path
from typing import Any, Literal

from voiceid import settings
from voiceid.settings import RelyingPartyKeys, Settings
from voiceid.tables import Between

_INTRODUCTION = """# Configuration

<!-- Made by `python -m voiceid.configuration_reference > docs/configuration.md`; change agent/voiceid/settings.py. -->

One TOML file: `--config FILE`, else `$VOICEID_CONFIG`, else `voiceid/config.toml` in `$XDG_CONFIG_HOME` or `~/.config`,
else `/etc/voiceid/config.toml`. Every key may be left out. A key that does not exist, a value of another type or out of
its range, and values that cannot go together are errors. `voiceid config show` prints what is in force, `voiceid config
check` also looks at the models, the wake word and the recording that are named, and at what lies in the places of
vault, key, socket and metrics: their paths begin with / or ~/. `~` stands for the home folder.

The daemon reads the file again at SIGHUP or `reload`; `[capture]`, `[activation]` and `[paths]` take a restart.
"""


def document() -> str:
    """The text of ``docs/configuration.md``."""
    texts = _texts(inspect.getsource(settings))
    hints = typing.get_type_hints(Settings)
    return _INTRODUCTION + "".join(
        _section(section.name, hints[section.name], texts) for section in dataclasses.fields(Settings)
    )


def _section(name: str, cls: type, texts: dict[str, str]) -> str:
    hints = typing.get_type_hints(cls, include_extras=True)
    rows = "\n".join(
        f"| `{f.name}` | {_kind(hints[f.name])} | {_default(f)} | {texts[f'{cls.__name__}.{f.name}']} |"
        for f in dataclasses.fields(cls)
    )
    return f"\n## [{name}]\n\n{texts[cls.__name__]}\n\n| key | value | default | |\n|---|---|---|---|\n{rows}\n"


def _kind(hint: Any) -> str:
    """What may be written for a field of type ``hint``."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        rules = [rule for rule in arguments[1:] if isinstance(rule, Between)]
        if any(isinstance(rule, RelyingPartyKeys) for rule in arguments[1:]):
            return "table of domains, each with an array of uids"
        return _kind(arguments[0]) + "".join(f", {rule.least:.10g} to {rule.most:.10g}" for rule in rules)
    if origin in (typing.Union, types.UnionType):
        return _kind(next(argument for argument in arguments if argument is not type(None)))
    if origin is Literal:
        return ", ".join(f"`{json.dumps(value)}`" for value in arguments)
    if origin is tuple:
        return f"array of: {_kind(arguments[0])}"
    return {float: "number", int: "integer", str: "text", bool: "`true`, `false`", Path: "path"}[hint]


def _default(field: dataclasses.Field[Any]) -> str:
    if field.default is None:
        return "(not set)"
    if field.default is dataclasses.MISSING:
        return "`{}`" if field.default_factory is dict else ""
    return f"`{json.dumps(field.default)}`"


def _texts(source: str) -> dict[str, str]:
    """The docstring of each class in ``source``, and of each of its fields the string that follows it."""
    found = {}
    for cls in (node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)):
        found[cls.name] = _text(ast.get_docstring(cls) or "")
        for field, text in zip(cls.body, cls.body[1:], strict=False):
            match field, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(value))):
                    found[f"{cls.name}.{name}"] = _text(value)
    return found


def _text(docstring: str) -> str:
    return " ".join(docstring.replace("``", "`").split())


if __name__ == "__main__":
    sys.stdout.write(document())
