"""Environments that are built once and cached by content: virtual environments and containers.

The functions take plain values and return paths and programs; this package does not depend on jobs.

Example:
    >>> from tarmac.environments import VenvSpec, build_venv
    >>> build_venv(VenvSpec(requirements=("six==1.17.0",)), Path())  # doctest: +SKIP
    PosixPath('/home/me/.cache/tarmac/venvs/5f1d3c2b7a908e46')
"""

from tarmac.environments.beforehand import refuse_unreadable
from tarmac.environments.conda import CondaSpec, activated, existing_prefix
from tarmac.environments.engines import (
    ClusterEngine,
    engine_program,
    find_cluster_engine,
    find_engine,
    is_podman,
)
from tarmac.environments.images import image_file, pull_once, pull_with_login
from tarmac.environments.projects import ProjectSpec, read_script
from tarmac.environments.shipped import node_directory, shipped_venv
from tarmac.environments.venvs import (
    VenvSpec,
    build_venv,
    list_venvs,
    pixi_spec,
    remove_venv,
    venvs_directory,
)

__all__ = [
    "ClusterEngine",
    "CondaSpec",
    "ProjectSpec",
    "VenvSpec",
    "activated",
    "build_venv",
    "engine_program",
    "existing_prefix",
    "find_cluster_engine",
    "find_engine",
    "image_file",
    "is_podman",
    "list_venvs",
    "node_directory",
    "pixi_spec",
    "pull_once",
    "pull_with_login",
    "read_script",
    "refuse_unreadable",
    "remove_venv",
    "shipped_venv",
    "venvs_directory",
]
