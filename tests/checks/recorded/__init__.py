"""Every failure of the catalogue, in evidence as it was recorded, and what comes close to it.

A file of a subject has two tables by code: `RECORDED`, in which the failure is to be found, and
`CLOSE`, in which it is not: healthy machines and results, lines of healthy logs, other failures.
A rule needs both.

Texts are quoted from the thread that the catalogue gives as the failure's source, from the
programs' own sources, or from this project's probes.
"""

from __future__ import annotations

from recorded import (
    amd,
    cluster,
    containers,
    driver,
    frameworks,
    hardware,
    jobs,
    kernel,
    links,
    programs,
    ranks,
    results,
    soak,
    speed,
)

RECORDED = {
    **driver.RECORDED,
    **jobs.RECORDED,
    **programs.RECORDED,
    **kernel.RECORDED,
    **hardware.RECORDED,
    **links.RECORDED,
    **amd.RECORDED,
    **frameworks.RECORDED,
    **speed.RECORDED,
    **results.RECORDED,
    **soak.RECORDED,
    **containers.RECORDED,
    **cluster.RECORDED,
    **ranks.RECORDED,
}

CLOSE = {
    **driver.CLOSE,
    **kernel.CLOSE,
    **hardware.CLOSE,
    **links.CLOSE,
    **amd.CLOSE,
    **frameworks.CLOSE,
    **programs.CLOSE,
    **speed.CLOSE,
    **results.CLOSE,
    **containers.CLOSE,
    **cluster.CLOSE,
    **ranks.CLOSE,
    **soak.CLOSE,
}
