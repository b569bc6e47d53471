"""Page writer: one HTML file of page.html, page.css, page.js and the compressed data.

Nothing is loaded from elsewhere, which the page's security policy says to the browser too.
"""

from __future__ import annotations

import base64
import html
import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tfn.inspect.viewer.collect import Collected

_FOLDER = Path(__file__).parent
COMPRESSION_LEVEL = 9
"""The highest: a page is read more often than it is written."""


def page(versions: Sequence[Collected]) -> str:
    """The text of a page with one program, or with two beside each other."""
    css, script = ((_FOLDER / name).read_text("utf-8") for name in ("page.css", "page.js"))
    parts = {
        "$TITLE$": html.escape(" and ".join(one.data["title"] for one in versions)),
        "$CSS$": css,
        "$DATA$": packed([one.data for one in versions]),
        "$TEXTS$": packed([one.texts for one in versions]),
        "$JS$": script,
    }
    text = (_FOLDER / "page.html").read_text("utf-8")
    for name, part in parts.items():
        before, after = text.split(name)
        text = before + part + after
    return text


def packed(data: Any) -> str:
    """JSON, compressed, in base64.

    Example:
        >>> packed([1, 2])[:4]
        'eNqL'
    """
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    return base64.b64encode(zlib.compress(text.encode(), COMPRESSION_LEVEL)).decode()
