"""A host of algorithms in a directory of its own."""

from __future__ import annotations

import asyncio

import pytest
from pools import QUICK, Calling, Told

from tarmac.hkube.hosting import Pool


@pytest.fixture
def told():
    return Told()


@pytest.fixture
def host(tmp_path, told):
    """Return a function that does something with a pool of some algorithms."""

    def go(algorithms, use, **options):
        calls = Calling()
        named = {algorithm.name: algorithm for algorithm in algorithms}
        options = {"timers": QUICK} | options

        async def work():
            pool = Pool(named, tmp_path, base=tmp_path, watcher=told, calls=calls, **options)
            async with asyncio.timeout(120), pool:
                calls.pool = pool
                return await use(pool)

        return asyncio.run(work())

    return go
