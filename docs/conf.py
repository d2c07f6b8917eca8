"""The site: `make docs` builds it from the pages as they are, into docs/_build/html."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

# autodoc rewrites the annotations of pydantic's base class, after which a model with extra fields
# cannot be imported; so the one room that has such a model comes first.
import tarmac.formats  # noqa: F401 - see above
from tarmac.distribution import installed_version

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "Tarmac"
author = "The Tarmac authors"
project_copyright = author
release = installed_version()
version = release

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_click",
]
# The source directory is the repository, so that links between pages hold on the site and in a
# checkout alike.
root_doc = "README"
include_patterns = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "bench/README.md",
    "bench/results/*.md",
    "docs/*.md",
    "examples/README.md",
    "examples/pbs/README.md",
]
exclude_patterns = [".*", "build", "dist", "docs/_build", "node_modules", "runs", "src", "tests"]
# Pages link to the results of benchmarks that they speak of; no list has them all. Rooms have
# classes of one name, such as Reporter, and annotations are shown without their modules.
suppress_warnings = ["toc.not_included", "ref.python"]

myst_heading_anchors = 4
# A line of a job file is no smart quotation.
smartquotes = False
highlight_language = "text"

default_role = "py:obj"
autodoc_member_order = "groupwise"
autodoc_typehints = "description"
autodoc_typehints_format = "short"
napoleon_google_docstring = True
napoleon_numpy_docstring = False

html_theme = "furo"
html_title = f"Tarmac {release}"
html_copy_source = False
html_show_sphinx = False

# The README is the site's first page, and knows nothing of Sphinx: its list of pages is added here.
_CONTENTS = """
```{{toctree}}
:hidden:
:caption: {caption}

{pages}
```
"""
_CHAPTERS = {
    "Start": [
        "docs/quickstart",
        "docs/faq",
        "docs/coming-from",
        "docs/why-gpus",
        "docs/glossary",
        "docs/uninstall",
    ],
    "Check": [
        "docs/check",
        "docs/gpu-health",
        "docs/read-logs",
        "docs/check-nodes",
        "docs/gates",
    ],
    "Train": [
        "docs/take-over",
        "docs/own-workload",
        "docs/own-data",
        "docs/own-loss",
        "docs/data-loaders",
        "docs/data",
        "docs/optimizers",
        "docs/precision",
        "docs/devices",
        "docs/strategies",
        "docs/several-machines",
        "docs/checkpoints",
        "docs/after-training",
        "docs/trackers",
        "docs/workloads",
    ],
    "Search": [
        "docs/search",
        "docs/search-methods",
        "docs/search-cluster",
        "docs/search-script",
        "docs/published-search",
    ],
    "Run": [
        "docs/jobs",
        "docs/containers",
        "docs/job-data",
        "docs/conda",
        "docs/hkube",
        "docs/hkube-pipelines",
        "docs/hkube-tuning",
        "docs/hkube-serve",
        "docs/hkube-definitions",
        "docs/shipyard",
    ],
    "Clusters": [
        "docs/clusters",
        "docs/slurm",
        "docs/kubernetes",
        "docs/kubernetes-files",
        "docs/kubernetes-pods",
        "docs/ray",
        "docs/clouds",
        "docs/cluster-retries",
        "docs/engines",
        "docs/cluster-admin",
        "docs/proven",
    ],
    "Watch": [
        "docs/top",
        "docs/top-scripts",
        "docs/judgement",
        "docs/report",
        "docs/serve",
        "docs/metrics",
        "docs/readings",
        "docs/runs",
    ],
    "When it fails": ["docs/troubleshooting", "docs/failures"],
    "Look up": [
        "docs/cli",
        "docs/api",
        "docs/every-key",
        "docs/environment",
        "docs/exit-codes",
        "docs/security",
    ],
    "Take part": [
        "docs/architecture",
        "docs/extend",
        "docs/extend-checks",
        "docs/extend-executor",
        "docs/extend-scheduler",
        "CONTRIBUTING",
        "SECURITY",
        "CHANGELOG",
        "bench/README",
        "examples/README",
    ],
}


def add_contents(_app: Sphinx, docname: str, source: list[str]) -> None:
    """Give the first page the list of all pages."""
    if docname == root_doc:
        for caption, pages in _CHAPTERS.items():
            listed = "\n".join(f"/{page}" for page in pages)
            source[0] += _CONTENTS.format(caption=caption, pages=listed)


def copy_first_page(app: Sphinx, error: Exception | None) -> None:
    """Let a server find the first page under the name that it looks for."""
    if error is None and app.builder.name == "html":
        shutil.copyfile(Path(app.outdir, f"{root_doc}.html"), Path(app.outdir, "index.html"))


def setup(app: Sphinx) -> None:
    """Connect both to the build."""
    app.connect("source-read", add_contents)
    app.connect("build-finished", copy_first_page)
