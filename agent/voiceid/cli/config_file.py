"""Reading the configuration for people, and changing one key of it without touching the rest."""

from __future__ import annotations

import dataclasses
import json
import re
import tomllib
from pathlib import Path
from typing import Any

from voiceid.errors import SettingsError
from voiceid.output_file import write_file
from voiceid.settings import Settings


def set_key(path: Path, section: str, key: str, value: str | None) -> None:
    """Set ``key`` in ``[section]`` of the TOML file at ``path``, or remove it (None); comments and order stay.

    A section that this leaves empty goes too. A missing file is made, for all to read: a service of another user may
    need it, and it holds no secret.

    Raises:
        OSError: the file cannot be written; it is as before then.
        SettingsError: it has the section in a form that is not understood here; it is as before then.
    """
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    new = [] if value is None else [f"{key} = {json.dumps(value, ensure_ascii=False)}"]
    headers = [number for number, text in enumerate(lines) if re.match(r"\s*\[", text)]
    start = next((n for n in headers if re.match(rf"\s*\[\s*{section}\s*\]", lines[n])), None)
    if start is None:
        lines += [*([""] if lines else []), f"[{section}]", *new] if new else []
    else:
        end = next((number for number in headers if number > start), len(lines))
        old = next((n for n in range(start + 1, end) if re.match(rf"\s*{key}\s*=", lines[n])), None)
        lines[start + 1 if old is None else old : start + 1 if old is None else old + 1] = new
        if old is not None and not new and not any(map(str.strip, lines[start + 1 : end - 1])):
            last = end - 1 == len(lines)
            del lines[start - 1 if last and start and not lines[start - 1].strip() else start : end - 1]
    text = "".join(f"{line}\n" for line in lines)
    if not _holds(text, section, key, value):
        change = f"set there: {new[0]}" if new else f"remove there: {key}"
        advice = f"it writes [{section}] in a way that only you can edit; {change}"
        raise SettingsError(f"{path}: left as it was: {advice}")
    for folder in (folder for folder in reversed(path.parents) if not folder.exists()):
        folder.mkdir(mode=0o755)
    write_file(path, text.encode(), mode=0o644)


def _holds(text: str, section: str, key: str, value: str | None) -> bool:
    """Whether the TOML ``text`` gives ``key`` of ``section`` the ``value``, None standing for no such key."""
    try:
        found: Any = tomllib.loads(text).get(section, {}).get(key)
    except tomllib.TOMLDecodeError:
        return False
    return bool(found == value)


def to_toml(settings: Settings) -> str:
    """``settings`` as a configuration file that would give them: every key, with the default where it has another."""
    sections, defaults = [], Settings()
    for section in dataclasses.fields(settings):
        values, usual = getattr(settings, section.name), getattr(defaults, section.name)
        lines = (_line(f.name, getattr(values, f.name), getattr(usual, f.name)) for f in dataclasses.fields(values))
        sections.append("\n".join([f"[{section.name}]", *lines]))
    return "\n\n".join(sections)


def _line(key: str, value: Any, default: Any) -> str:
    if value is None:
        return f"# {key} (not set)"
    usual = "(not set)" if default is None else _literal(default)
    return f"{key} = {_literal(value)}" + ("" if value == default else f"  # default: {usual}")


def _literal(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{json.dumps(k)} = {_literal(v)}' for k, v in value.items())} }}" if value else "{}"
    return str(value).lower() if isinstance(value, bool) else json.dumps(value, default=str, ensure_ascii=False)
