"""Ray's jobs, by its REST interface alone: submit, look, stop, and what its words mean.

Knows nothing of job files, and needs nothing of Ray's own package. Whatever is no answer is a
`Silence`, and what Ray does not do a `Refused`.

Example::

    jobs = RayJobs(dashboard_address(os.environ), read_token(os.environ))
    answer = jobs.submit(Submission(name="mine-1", entrypoint="python train.py"))
"""

from tarmac.ray.access import dashboard_address, read_token
from tarmac.ray.jobs import RayJob, RayJobs, Refused, Silence, Submission

__all__ = [
    "RayJob",
    "RayJobs",
    "Refused",
    "Silence",
    "Submission",
    "dashboard_address",
    "read_token",
]
