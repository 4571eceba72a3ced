"""What a page says: its tags, links and the numbers behind its cells."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any


class Page(HTMLParser):
    """Collects tags, attributes, ids and the numbers of ``data`` elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.data: list[tuple[Any, str]] = []
        self._value: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        self._value = dict(attrs).get("value") if tag == "data" else None

    def handle_data(self, data: str) -> None:
        if self._value is not None:
            self.data.append((json.loads(self._value), data))
            self._value = None


def numbers_in(node: Any) -> Iterator[float]:
    """Every number that plain data hold, however deep."""
    if isinstance(node, dict):
        node = list(node.values())
    if isinstance(node, list | tuple):
        for item in node:
            yield from numbers_in(item)
    elif node == "inf":
        yield math.inf
    elif isinstance(node, int | float) and not isinstance(node, bool):
        yield float(node)
