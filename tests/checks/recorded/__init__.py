"""Every failure of the catalogue, in evidence as it was recorded.

Texts are quoted from the thread that the catalogue gives as the failure's source, from the
programs' own sources, or from this project's probes.
"""

from __future__ import annotations

from recorded import (
    cluster,
    containers,
    driver,
    frameworks,
    hardware,
    kernel,
    ranks,
    results,
    soak,
    speed,
)

RECORDED = {
    **driver.RECORDED,
    **kernel.RECORDED,
    **hardware.RECORDED,
    **frameworks.RECORDED,
    **speed.RECORDED,
    **results.RECORDED,
    **soak.RECORDED,
    **containers.RECORDED,
    **cluster.RECORDED,
    **ranks.RECORDED,
}
