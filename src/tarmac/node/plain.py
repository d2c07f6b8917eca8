"""An attempt in an image without Python: a POSIX sh script does the framed agent's work.

``gzip -dc UNITS | sh`` runs the unit whose number is in ``JOB_COMPLETION_INDEX``. The program's
output and the record go to one stream in the format of `tarmac.node.pod`. The script needs ``sh``
and the commands env, mkdir, sleep, date, kill and gzip, as busybox has them. With ``setsid`` it
also ends all child processes of the program.
"""

from __future__ import annotations

import gzip
import math
import os
import re
import shlex
from collections.abc import Iterable

from tarmac.node.records import AttemptRecord, AttemptSpec, own_variables

# The script sleeps whole seconds, because `sleep` of some images takes no fractions.
_AGENT = r"""
frame() {
  while IFS= read -r line; do printf '%s %s\n' "$1" "$line"; done
  [ -z "$line" ] || printf '%s+%s\n' "$1" "$line"
}
signal() {
  read -r pid < "$directory/.pid" || return 0
  kill -s "$1" -- "-$pid" 2>/dev/null || kill -s "$1" "$pid" 2>/dev/null
}
end() {
  [ -z "$stopped" ] || return 0
  stopped=$1
  while [ ! -s "$directory/.pid" ] && kill -0 "$main" 2>/dev/null; do sleep 1; done
  signal TERM
  (sleep "$grace"; signal KILL) 5>&- >/dev/null 2>&1 &
  killer=$!
}
kills() {
  while read -r key value; do
    [ "$key" != oom_kill ] || { echo "$value"; return; }
  done 2>/dev/null < /sys/fs/cgroup/memory.events
  echo 0
}
record() {
  printf '= {"nonce": "%s", "state": "ended", "host": "%s", "engine_id": "%s", ' \
    "$nonce" "$TARMAC_KUBERNETES_NODE" "$TARMAC_KUBERNETES_JOB-$JOB_COMPLETION_INDEX"
  printf '"outcome": "%s", "cause": "%s", "reason": "%s", "exit_code": %s, "seconds": %s, ' "$@"
  printf '"schema": %s}\n' "$schema"
}
stopped= killer= code=
exec 5>&1
mkdir -p "$directory/work" && cd "$directory/work" || exit 1
if [ -n "$refused" ]; then
  record failed start "$refused" null 0
  exit 1
fi
session=
command -v setsid >/dev/null 2>&1 && session=setsid
before=$(kills) began=$(date +%s)
{
  {
    { program 2>&1 >&6 5>&- 6>&-; echo $? > "$directory/.code"; signal KILL; } |
      frame 2 >&5 6>&-
  } 6>&1 | frame 1 >&5
} &
main=$!
trap 'end stop' TERM INT
trap 'end timeout' ALRM
limiter=
if [ -n "$limit" ]; then
  (sleep "$limit"; kill -s ALRM $$) 5>&- >/dev/null 2>&1 &
  limiter=$!
fi
while kill -0 "$main" 2>/dev/null; do wait "$main"; done
trap '' TERM INT ALRM
kill $limiter $killer 2>/dev/null
seconds=$(( $(date +%s) - began ))
read -r code < "$directory/.code" || exit 1
number=$code cause=exit reason="exit code $code"
if [ "$code" -gt 128 ] && [ "$code" -le 192 ]; then
  number=-$(( code - 128 )) cause=signal reason="signal $(( code - 128 ))"
fi
if [ "$stopped" = timeout ]; then
  record failed timeout "$limit_words" "$number" "$seconds"
  exit $(( code ? code : 1 ))
elif [ "$stopped" = stop ]; then
  record interrupted stop "its engine ended it (SIGTERM)" "$number" "$seconds"
elif [ "$code" = 0 ]; then
  record succeeded "" "" 0 "$seconds"
elif [ "$code" = 137 ] && [ "$(kills)" -gt "$before" ]; then
  record failed memory "$memory_words" "$number" "$seconds"
else
  record failed "$cause" "$reason" "$number" "$seconds"
fi
exit "$code"
"""

_NEEDS_PYTHON = "its image has no Python, and its inputs or outputs need one with Tarmac"

# Texts that need no escape in a JSON string.
_TEXT = re.compile(r"[ -!#-\[\]-~]*")


def plain_units(elements: Iterable[AttemptSpec]) -> bytes:
    """Return the compressed script for units, with reproducible bytes.

    Args:
        elements: Attempts of the units, by the index of their pod, from 0.
    """
    cases = [f"{unit})\n{_settings(element)};;\n" for unit, element in enumerate(elements)]
    text = f'case "$JOB_COMPLETION_INDEX" in\n{"".join(cases)}esac\n{_AGENT}'
    return gzip.compress(os.fsencode(text), mtime=0)


def _settings(element: AttemptSpec) -> str:
    """Return the part of the script for one attempt: shell variables and a function."""
    limit = element.timeout_s
    memory = element.memory_bytes
    words = "its container's limit" if memory is None else f"{memory / 2**20:.0f} MiB of memory"
    values = {
        "directory": element.directory,
        "nonce": element.nonce,
        "schema": str(AttemptRecord._field_defaults["schema"]),
        "grace": str(math.ceil(element.grace_s)),
        "limit": "" if limit is None else str(max(1, math.ceil(limit))),
        "limit_words": "" if limit is None else f"its time limit of {limit:g} s",
        "memory_words": f"it took more than {words}",
        "refused": _NEEDS_PYTHON if element.stage is not None else "",
    }
    assert _TEXT.fullmatch(element.nonce)
    variables = {
        **({} if element.gpus else {"CUDA_VISIBLE_DEVICES": ""}),
        **element.variables,
        **own_variables(element, restart=0, rank=0),
    }
    assignments = [f"{name}={value}" for name, value in variables.items()]
    # The script ends the program by this pid.
    inner = 'echo $$ > "$0/.pid"; exec env "$@"'
    command = shlex.join([*assignments, *element.command])
    lines = [f"{name}={shlex.quote(value)}" for name, value in values.items()]
    program = f'program() {{ $session sh -c {shlex.quote(inner)} "$directory" {command}; }}'
    return "\n".join([*lines, program, ""])
