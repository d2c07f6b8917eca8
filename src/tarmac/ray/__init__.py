"""Ray's jobs, by its REST interface alone: submit, look, stop, and what its words mean.

Knows nothing of job files, and needs nothing of Ray's own package. Whatever is no answer is a
`Silence`, and what Ray does not do a `Refused`.

Example::

    jobs = RayJobs(dashboard_address(os.environ), read_token(os.environ))
    answer = jobs.submit(Submission(name="mine-1", entrypoint="python train.py"))
"""

from tarmac.ray.access import dashboard_address as dashboard_address
from tarmac.ray.access import read_token as read_token
from tarmac.ray.jobs import RayJob as RayJob
from tarmac.ray.jobs import RayJobs as RayJobs
from tarmac.ray.jobs import Refused as Refused
from tarmac.ray.jobs import Silence as Silence
from tarmac.ray.jobs import Submission as Submission
