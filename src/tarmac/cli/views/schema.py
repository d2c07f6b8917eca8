"""JSON Schemas of models, with which editors complete files."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

_DIALECT = "https://json-schema.org/draft/2020-12/schema"

# The part of a docstring that describes fields, and the start of each description in it.
_ATTRIBUTES = re.compile(r"\n\s*Attributes:\n")
_ATTRIBUTE = re.compile(r"^    (\w+): ", re.MULTILINE)


class _Untitled(GenerateJsonSchema):
    """A generator without titles of fields, which would be their names in capitals."""

    def field_title_should_be_set(self, schema: object) -> bool:  # noqa: ARG002 - pydantic's
        return False


def render_schema(
    model: type[BaseModel], title: str, options: Mapping[str, type[BaseModel]] | None = None
) -> dict[str, Any]:
    """Return the JSON Schema, draft 2020-12, of the files that a model reads.

    The description of each property is its entry in the docstring of its model.

    Args:
        model: Model that a file is read into.
        title: Title of the schema, which names the kind of file.
        options: Models of the values of ``options``, by the executor's name. Default: none.
    """
    schema = model.model_json_schema(mode="validation", schema_generator=_Untitled)
    for name, understood in (options or {}).items():
        _add_options(schema, name, understood)
    for part in (schema, *schema.get("$defs", {}).values()):
        for form in (part, *part.get("anyOf", ())):
            _describe(form)
    return {"$schema": _DIALECT, **schema, "title": title}


def _add_options(schema: dict[str, Any], name: str, model: type[BaseModel]) -> None:
    """Add a model to the schema for an executor's part of ``options``, in all places."""
    added = model.model_json_schema(mode="validation", schema_generator=_Untitled)
    schema["$defs"] |= {**added.pop("$defs", {}), model.__name__: added}
    for base in model.__mro__[1:]:
        # The docstring of the base describes the inherited fields.
        doc = inspect.getdoc(base) or ""
        inherited = {"description": doc, "properties": added["properties"]}
        _describe(inherited)
    for part in (schema, *schema["$defs"].values()):
        shown = part.get("properties", {}).get("options")
        if shown is not None:
            shown.setdefault("properties", {})[name] = {"$ref": f"#/$defs/{model.__name__}"}


def _describe(part: dict[str, Any]) -> None:
    """Move the descriptions of fields from a model's docstring to the fields."""
    summary, *rest = _ATTRIBUTES.split(part.get("description", ""), maxsplit=1)
    if not rest:
        return
    part["description"] = summary.strip()
    _, *words = _ATTRIBUTE.split(rest[0])
    for name, text in zip(words[::2], words[1::2], strict=True):
        if name in part.get("properties", {}):
            part["properties"][name]["description"] = " ".join(text.split())
