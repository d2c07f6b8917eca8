"""Names that files may have, and that break what takes paths for text of some language."""

from __future__ import annotations

import pytest

NAMES = {
    "spaces": "  a  name with spaces ",
    "single quote": "it's; echo x",
    "double quote": 'say "x"',
    "hash": "epoch#1.pt",
    "question": "what?.pt",
    "colon": "a:b:ro",
    "percent": "100%41 %s",
    "comma": "a,readonly",
    "glob": "*[a-",
    "newline": "one\ntwo",
    "unicode": "naïve-☃-ダ",
    "long": "n" * 200,
    "braces": "{x} $HOME `id`",
}

# Parametrise a test by this for one run of it per name.
each_name = pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())

# obstore has no way to say a key with a newline.
each_key = pytest.mark.parametrize(
    "name",
    [name for name in NAMES.values() if "\n" not in name],
    ids=[key for key, name in NAMES.items() if "\n" not in name],
)
