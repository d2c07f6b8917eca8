"""Kubernetes' notation of amounts."""

from __future__ import annotations

import pytest

from tarmac.kubernetes import quantity


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1500m", 1.5),
        ("2Ki", 2048),
        ("1e3", 1000),
        ("1E3", 1000),
        ("1E", 1e18),
        ("+5", 5),
        ("-1", -1),
        ("12e-1", 1.2),
        (4, 4),
        ("", 0),
        ("many", 0),
    ],
)
def test_amounts_are_read_in_every_form(written, value):
    assert quantity(written) == pytest.approx(value)
