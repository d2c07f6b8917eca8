"""Numbers in every way that YAML allows, and what they are read as.

For tests of each format that is read from YAML:

    @pytest.mark.parametrize(("written", "value"), YAML_NUMBERS)
"""

from __future__ import annotations

import math

# By YAML 1.2's core schema, with the binary numbers and underscores that ruamel.yaml, which Batch
# Shipyard reads its files with, takes beyond it.
YAML_NUMBERS = [
    ("0", 0),
    ("-0", 0),
    ("+7", 7),
    ("-12", -12),
    ("1_000", 1000),
    ("0x10", 16),
    ("0xfF", 255),
    ("0o17", 15),
    ("017", 17),
    ("0755", 755),
    ("08", 8),
    ("09", 9),
    ("0b11", 3),
    (".5", 0.5),
    ("+.5", 0.5),
    ("-.25", -0.25),
    ("5.", 5.0),
    ("0.10", 0.1),
    ("1.10", 1.1),
    ("1e3", 1000.0),
    ("1E3", 1000.0),
    ("1e-3", 0.001),
    ("1.5e+2", 150.0),
    (".5e+1", 5.0),
    ("-0.0", -0.0),
    (".inf", math.inf),
    ("-.inf", -math.inf),
    (".Inf", math.inf),
    (".nan", math.nan),
    (".NaN", math.nan),
]

# What looks like a number, or was one in YAML 1.1, and is a text.
YAML_TEXTS = [
    "'08'",
    '"1e3"',
    "'0x10'",
    "1:30",
    "12:00:00",
    "1.2.3",
    "0x",
    "1e",
    ".",
    "+",
    "inf",
    "nan",
    "1,000",
    "2026-11-21",
    "yes",
    "no",
    "on",
    "off",
]
