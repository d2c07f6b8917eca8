"""Writes plain values as YAML."""

from __future__ import annotations

import re
from typing import Any

import yaml


def dump_document(value: Any, *, has_blocks: bool = False, has_lists: bool = False) -> str:
    """Write plain values as YAML that versions 1.1 and 1.2 read alike.

    Args:
        value: Nested dictionaries, lists, texts, numbers, booleans and None to write.
        has_blocks: Write texts of several lines as they are, where YAML can, behind a ``|``.
        has_lists: Write lists on a line, in brackets.
    """
    dumper = _BlockDumper if has_blocks else _ListDumper if has_lists else _Dumper
    return str(yaml.dump(value, Dumper=dumper, sort_keys=False, width=100))


class _Dumper(yaml.SafeDumper):
    """Quotes the texts that YAML 1.2 takes for numbers, beside those that 1.1 does."""

    def ignore_aliases(self, data: Any) -> bool:
        """Write what is there twice twice: not all readers take aliases."""
        del data
        return True


# Wider than the numbers of YAML 1.2: a text in quotes stays the text that it is.
_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?(0[box][0-9a-fA-F_]+|[0-9_]*\.?[0-9_]*([eE][-+]?[0-9]+)?)$"),
    list("-+.0123456789"),
)


class _ListDumper(_Dumper):
    pass


def _list(dumper: yaml.SafeDumper, values: list[Any]) -> yaml.SequenceNode:
    return dumper.represent_sequence("tag:yaml.org,2002:seq", values, flow_style=True)


_ListDumper.add_representer(list, _list)


class _BlockDumper(_Dumper):
    pass


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "|" if "\n" in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_BlockDumper.add_representer(str, _text)
