"""Works on a study without networks, in a process of its own.

As ``python stand_in.py STUDY [GATE_NUMBER GATE]``. At the first epoch of the trial of that number
it writes to the FIFO ``GATE``, and then waits for ever.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

from tarmac.studies.study.writer import StudyWriter
from tarmac.testing.stand_in import StandIn, search_without_networks


def main():
    study = StudyWriter.open(Path(sys.argv[1]))
    wait = None
    if len(sys.argv) > 2:
        number, fifo = int(sys.argv[2]), sys.argv[3]

        def wait(progress):
            if progress.number == number:
                Path(fifo).write_text("here")
                threading.Event().wait()

    evaluator = StandIn(at_epoch=wait)
    search_without_networks(study, evaluator)
    sys.stdout.write(json.dumps([candidate.number for candidate in evaluator.seen]))


if __name__ == "__main__":
    main()
