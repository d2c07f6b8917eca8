"""Writes a model as a JSON Schema, in which editors look up what a file may say."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any

from pydantic.json_schema import GenerateJsonSchema

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel

_DIALECT = "https://json-schema.org/draft/2020-12/schema"

# The part of a docstring that explains fields, and the beginning of each explanation in it.
_ATTRIBUTES = re.compile(r"\n\s*Attributes:\n")
_ATTRIBUTE = re.compile(r"^    (\w+): ", re.MULTILINE)


class _Untitled(GenerateJsonSchema):
    """Gives fields no titles, which would be their names in capitals."""

    def field_title_should_be_set(self, schema: object) -> bool:  # noqa: ARG002 - pydantic's
        return False


def render_schema(
    model: type[BaseModel], title: str, options: Mapping[str, type[BaseModel]] | None = None
) -> dict[str, Any]:
    """Return the schema, of draft 2020-12, of what a model is read from.

    Each property is described by its line in the docstring of its model.

    Args:
        model: What a file is read into.
        title: What such a file is called.
        options: What its ``options`` may hold, by the name of who understands them.
    """
    schema = model.model_json_schema(mode="validation", schema_generator=_Untitled)
    for name, understood in (options or {}).items():
        _add_options(schema, name, understood)
    for part in (schema, *schema.get("$defs", {}).values()):
        for form in (part, *part.get("anyOf", ())):
            _describe(form)
    return {"$schema": _DIALECT, **schema, "title": title}


def _add_options(schema: dict[str, Any], name: str, model: type[BaseModel]) -> None:
    """Say what a name's part of ``options`` may hold, wherever there are options."""
    added = model.model_json_schema(mode="validation", schema_generator=_Untitled)
    schema["$defs"] |= {**added.pop("$defs", {}), model.__name__: added}
    for base in model.__mro__[1:]:
        # Of fields that a model inherits, its base's docstring speaks.
        doc = inspect.getdoc(base) or ""
        inherited = {"description": doc, "properties": added["properties"]}
        _describe(inherited)
    for part in (schema, *schema["$defs"].values()):
        shown = part.get("properties", {}).get("options")
        if shown is not None:
            shown.setdefault("properties", {})[name] = {"$ref": f"#/$defs/{model.__name__}"}


def _describe(part: dict[str, Any]) -> None:
    """Move what a model's docstring says on its fields to the fields."""
    summary, *rest = _ATTRIBUTES.split(part.get("description", ""), maxsplit=1)
    if not rest:
        return
    part["description"] = summary.strip()
    _, *words = _ATTRIBUTE.split(rest[0])
    for name, text in zip(words[::2], words[1::2], strict=True):
        if name in part.get("properties", {}):
            part["properties"][name]["description"] = " ".join(text.split())
