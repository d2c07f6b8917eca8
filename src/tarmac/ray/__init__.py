"""A client of Ray's Jobs REST interface: submit, look up and stop jobs.

The client is independent of job files and of Ray's own package. A missing or unusable answer is a
`NoAnswer`, and a refusal of Ray a `Refused`.

Example::

    jobs = RayJobs(dashboard_address(os.environ), read_token(os.environ))
    answer = jobs.submit(Submission(name="mine-1", entrypoint="python train.py"))
"""

from tarmac.ray.access import dashboard_address, read_token
from tarmac.ray.jobs import NoAnswer, RayJob, RayJobs, Refused, Submission

__all__ = [
    "NoAnswer",
    "RayJob",
    "RayJobs",
    "Refused",
    "Submission",
    "dashboard_address",
    "read_token",
]
