"""Plain values written as YAML."""

from __future__ import annotations

import re
from typing import Any

import yaml


def dump_document(value: Any, *, has_blocks: bool = False, has_lists: bool = False) -> str:
    """Return plain values as YAML that YAML 1.1 and 1.2 read identically.

    Args:
        value: Nested dictionaries, lists, texts, numbers, booleans and None to write.
        has_blocks: Whether to write texts of several lines as blocks after ``|``. Default False.
        has_lists: Whether to write each list on one line, in brackets. Default False.
    """
    dumper = _BlockDumper if has_blocks else _ListDumper if has_lists else _Dumper
    return str(yaml.dump(value, Dumper=dumper, sort_keys=False, width=100))


class _Dumper(yaml.SafeDumper):
    """A dumper that quotes every text that YAML 1.1 or 1.2 would read as a number."""

    def ignore_aliases(self, data: Any) -> bool:
        """Return True to write repeated values in full, as not all readers accept aliases."""
        del data
        return True


# Matches more than the numbers of YAML 1.2, since quotes never change a text.
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
