"""All rules, by the code of the failure that each finds."""

from __future__ import annotations

from collections.abc import Mapping

from tarmac.checks.rules import (
    amd,
    cluster,
    containers,
    driver,
    frameworks,
    hardware,
    kernel,
    links,
    ranks,
    results,
    soak,
    speed,
)
from tarmac.checks.rules.rule import Rule

RULES: Mapping[str, Rule] = {
    **driver.RULES,
    **kernel.RULES,
    **hardware.RULES,
    **links.RULES,
    **amd.RULES,
    **frameworks.RULES,
    **speed.RULES,
    **results.RULES,
    **soak.RULES,
    **containers.RULES,
    **cluster.RULES,
    **ranks.RULES,
}
