"""Environments that are built once and kept by their content: virtual environments, containers.

What goes in are plain values, what comes out are paths and programs: nothing here knows of jobs.

Example:
    >>> from tarmac.environments import VenvSpec, build_venv
    >>> build_venv(VenvSpec(requirements=("six==1.17.0",)), Path())  # doctest: +SKIP
    PosixPath('/home/me/.cache/tarmac/venvs/5f1d3c2b7a908e46')
"""

from tarmac.environments.beforehand import refuse_unreadable as refuse_unreadable
from tarmac.environments.conda import CondaSpec as CondaSpec
from tarmac.environments.conda import activated as activated
from tarmac.environments.conda import existing_prefix as existing_prefix
from tarmac.environments.engines import ClusterEngine as ClusterEngine
from tarmac.environments.engines import engine_program as engine_program
from tarmac.environments.engines import find_cluster_engine as find_cluster_engine
from tarmac.environments.engines import find_engine as find_engine
from tarmac.environments.engines import is_podman as is_podman
from tarmac.environments.images import image_file as image_file
from tarmac.environments.images import pull_once as pull_once
from tarmac.environments.images import pull_with_login as pull_with_login
from tarmac.environments.projects import ProjectSpec as ProjectSpec
from tarmac.environments.projects import read_script as read_script
from tarmac.environments.shipped import node_directory as node_directory
from tarmac.environments.shipped import shipped_venv as shipped_venv
from tarmac.environments.venvs import VenvSpec as VenvSpec
from tarmac.environments.venvs import build_venv as build_venv
from tarmac.environments.venvs import list_venvs as list_venvs
from tarmac.environments.venvs import pixi_spec as pixi_spec
from tarmac.environments.venvs import remove_venv as remove_venv
from tarmac.environments.venvs import venvs_directory as venvs_directory
