"""Reads a page as a browser would: its elements, its ids, its texts; and refuses what is broken."""

from __future__ import annotations

import dataclasses
from html.parser import HTMLParser

VOID = {"meta", "br", "input", "img", "link", "hr", "path", "line", "rect", "circle"}


@dataclasses.dataclass
class AttemptSpec:
    name: str
    attributes: dict[str, str]
    text: str = ""


class Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[AttemptSpec] = []
        self.all: list[AttemptSpec] = []

    def handle_starttag(self, tag, attrs):
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names), f"<{tag}> has an attribute twice: {names}"
        element = AttemptSpec(tag, {name: value or "" for name, value in attrs})
        self.all.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag, attrs):
        self.all.append(AttemptSpec(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag):
        if tag in VOID:
            return
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1].name == tag, f"</{tag}> closes <{self.open[-1].name}>"
        self.open.pop()

    def handle_data(self, data):
        for element in self.open:
            element.text += data


def read(html: str) -> list[AttemptSpec]:
    """Return all elements of a page or of a part of one, which must be whole."""
    reader = Reader()
    reader.feed(html)
    reader.close()
    assert not reader.open, f"never closed: {[element.name for element in reader.open]}"
    return reader.all


def ids(elements: list[AttemptSpec]) -> list[str]:
    return [element.attributes["id"] for element in elements if "id" in element.attributes]


def check_page(html: str) -> list[AttemptSpec]:
    """Assert what holds of every page, and return its elements."""
    elements = read(html)
    found = ids(elements)
    assert len(set(found)) == len(found), sorted({one for one in found if found.count(one) > 1})
    names = [element.name for element in elements]
    assert names.count("h1") == 1
    assert names.count("main") == 1
    for element in elements:
        attributes = element.attributes
        assert not [name for name in attributes if name.startswith("on")], element
        for name in ("src", "href"):
            assert not attributes.get(name, "#").startswith(("http", "//")), element
        for name in ("aria-labelledby", "aria-describedby"):
            for one in attributes.get(name, "").split():
                assert one in found, f"{name} names {one}, which is not there"
        if attributes.get("href", "").startswith("#"):
            assert attributes["href"][1:] in found
        if element.name == "img":
            assert attributes["alt"]
        if attributes.get("role") == "img":
            assert "aria-labelledby" in attributes or attributes.get("aria-label")
    return elements


def texts(elements: list[AttemptSpec], name: str) -> list[str]:
    return [" ".join(element.text.split()) for element in elements if element.name == name]
