"""One HTML page that needs nothing else: plain tables, figures inside it, fit to be printed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from tools.studies.voiceid.tables import Table

STYLE = """
body { font: 11pt/1.4 Georgia, serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #000; background: #fff }
h1, h2 { font-weight: normal; line-height: 1.2 } h2 { margin-top: 2em; border-bottom: 1px solid #888 }
table { border-collapse: collapse; margin: 1em 0; font-size: 9.5pt; min-width: 50% }
caption { text-align: left; font-weight: bold; margin-bottom: .3em }
th, td { text-align: left; padding: .15em .5em; border-bottom: 1px solid #ccc; vertical-align: top }
th { border-bottom: 1px solid #000 } .number { text-align: right; white-space: nowrap }
th.number { white-space: normal }
.note { font-size: 9.5pt; color: #333 } figure { margin: 1em 0 } svg { max-width: 100%; height: auto }
pre { font-size: 8.5pt; white-space: pre-wrap; border: 1px solid #ccc; padding: .5em }
@page { margin: 15mm }
@media print {
  body { max-width: none; margin: 0; padding: 0; font-size: 10pt } table { font-size: 8.5pt }
  h2, tr, figure { break-inside: avoid } h2, caption, thead { break-after: avoid }
}
"""
NUMBER = re.compile(r"$|-$|[+-]?\d+(\.\d+)?($| [^a-z]| of )")
"""The beginning of a cell that is a number, perhaps with a unit, an interval or a total; or empty."""


def page(title: str, parts: Sequence[str]) -> str:
    """The document."""
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{STYLE}</style>'
    body = f"<h1>{escape(title)}</h1>\n{''.join(parts)}"
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head><body>\n{body}</body></html>\n'


def heading(text: str) -> str:
    return f"<h2>{escape(text)}</h2>\n"


def paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>\n"


def verbatim(text: str) -> str:
    return f"<pre>{escape(text)}</pre>\n"


def table(content: Table, *, titled: bool = True) -> str:
    """A table with what it means below it; columns of numbers are flush right. Not ``titled``: a heading says it."""
    columns = list(zip(*content.rows, strict=True))[1:]
    kinds = ["", *(' class="number"' if all(map(NUMBER.match, column)) else "" for column in columns)]

    def row(tag: str, cells: Sequence[str]) -> str:
        shown = (f"<{tag}{kind}>{escape(cell)}</{tag}>" for kind, cell in zip(kinds, cells, strict=True))
        return f"<tr>{''.join(shown)}</tr>\n"

    rows = "".join(row("td", cells) for cells in content.rows)
    body = f"<thead>{row('th', content.headers)}</thead><tbody>\n{rows}</tbody>" if content.rows else ""
    title = f"<caption>{escape(content.title)}</caption>" if titled else ""
    shown = f"<table>{title}{body}</table>\n" if body or title else ""
    return f'{shown}<p class="note">{escape(content.caption)}</p>\n'


def figure(svg: str, caption: str, prefix: str) -> str:
    """``svg`` as matplotlib writes it, inside the page; ``prefix`` keeps its names apart from other figures'."""
    body = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}-", svg[svg.index("<svg") :])
    return f'<figure>{body}<figcaption class="note">{escape(caption)}</figcaption></figure>\n'
