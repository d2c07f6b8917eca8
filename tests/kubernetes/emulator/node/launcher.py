"""Starts a container's program in namespaces of its own: run as a script, by the node alone.

Reads what to run, as JSON, from the first argument; needs the standard library alone. On descriptor
3 it says ``{"pid": …}`` of the program as the machine sees it, or ``{"error": …}`` in the words of
a container runtime. Its own exit code is the program's, 128+n for a signal.
"""

import ctypes
import json
import os
import signal
import sys

_CLONE_NEWNS, _CLONE_NEWUTS, _CLONE_NEWPID = 0x00020000, 0x04000000, 0x20000000
_BIND, _REC, _PRIVATE, _REMOUNT, _RDONLY = 4096, 16384, 1 << 18, 32, 1
_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_KEEPCAPS, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE = 8, 47, 2
_CAPABILITY_VERSION_3, _DAC_READ_SEARCH = 0x20080522, 2
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "pts", "ptmx")


def _mount(source, target, kind=None, flags=0, options=None):
    encoded = [None if it is None else os.fsencode(it) for it in (source, target, kind)]
    data = None if options is None else options.encode()
    if _LIBC.mount(*encoded, flags, data) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"mount {source} on {target}: {os.strerror(number)}")


def _build_root(root, spec):
    """Make a root of the machine's own directories, an empty /tmp, a /dev, and the volumes."""
    _mount("none", "/", flags=_REC | _PRIVATE)
    _mount("tmpfs", root, "tmpfs", options="mode=755")
    own = {root}
    for entry in os.scandir("/"):
        target = os.path.join(root, entry.name)
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), target)
        elif entry.name in ("proc", "dev", "tmp") or not entry.is_dir():
            continue
        else:
            os.mkdir(target)
            _mount(entry.path, target, flags=_BIND | _REC)
    for name in ("proc", "dev", "tmp"):
        os.mkdir(os.path.join(root, name))
    os.chmod(os.path.join(root, "tmp"), 0o1777)
    for place in spec["shown"]:
        _show(root, place, place, own)
    dev = os.path.join(root, "dev")
    for name in _DEVICES:
        source = os.path.join("/dev", name)
        if os.path.exists(source):
            _show(root, source, source, own)
    for name, there in (
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ):
        os.symlink(there, os.path.join(dev, name))
    if not any(mount["at"] == "/dev/shm" for mount in spec["mounts"]):
        os.mkdir(os.path.join(dev, "shm"))
        # As containerd has it.
        _mount("shm", os.path.join(dev, "shm"), "tmpfs", options="size=64m,mode=1777")
    mounts = sorted(spec["mounts"], key=lambda it: it["at"].count("/"))
    # Places first: one that needs a layer over a directory would hide what is mounted there before.
    for mount in mounts:
        target = os.path.normpath(root + "/" + mount["at"])
        is_inside = any(mount["at"].startswith(it["at"].rstrip("/") + "/") for it in mounts)
        if not is_inside and not os.path.lexists(target):
            _make_place(root, target, os.path.isdir(mount["from"]), own)
    for mount in mounts:
        _show(root, mount["from"], mount["at"], own, mount.get("read_only", False))


def _show(root, source, at, own, read_only=False):
    target = os.path.normpath(root + "/" + at)
    is_directory = os.path.isdir(source)
    if not os.path.lexists(target):
        _make_place(root, target, is_directory, own)
    _mount(source, target, flags=_BIND | _REC)
    own.add(target)
    if read_only:
        _mount(source, target, flags=_BIND | _REMOUNT | _RDONLY)


def _make_place(root, target, is_directory, own):
    """Make a place to mount on, without a trace in the machine's own directories."""
    above = os.path.dirname(target)
    while not os.path.isdir(above):
        above = os.path.dirname(above)
    relative = os.path.relpath(above, root).split(os.sep)
    is_ours = any(above == it or above.startswith(it + "/") for it in own if it != root)
    if above != root and relative[0] not in ("dev", "tmp") and not is_ours:
        upper = os.path.join(root, ".layers", str(len(own)))
        for name in ("new", "work"):
            os.makedirs(os.path.join(upper, name))
        options = f"lowerdir={above},upperdir={upper}/new,workdir={upper}/work"
        _mount("overlay", above, "overlay", options=options)
        own.add(above)
    if is_directory:
        os.makedirs(target)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "w"):
            pass


def _start_error(name, error):
    words = (
        "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
        f'runc create failed: unable to start container process: exec: "{name}": '
    )
    if isinstance(error, FileNotFoundError):
        is_path = "/" in name
        words += (
            f"stat {name}: no such file or directory"
            if is_path
            else "executable file not found in $PATH"
        )
    elif isinstance(error, PermissionError):
        words += "permission denied"
    else:
        words += str(error)
    return words + ": unknown"


def _become(user):
    """Become a user who reads what root reads: the image's files are this machine's, and its own.

    CAP_DAC_READ_SEARCH is kept over setuid, and made ambient, so that the program has it too.
    """
    _LIBC.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setuid(user)
    bit = 1 << _DAC_READ_SEARCH
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    # Effective, permitted and inheritable, of capabilities below 32 and of those above.
    sets = (ctypes.c_uint32 * 6)(bit, bit, bit, 0, 0, 0)
    if _LIBC.capset(header, sets) == 0:
        _LIBC.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, _DAC_READ_SEARCH, 0, 0)


def _run(spec, told):
    """Become the program; only returns by an error, which is told."""
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, [])
        for number in range(1, signal.NSIG):
            if number not in (signal.SIGKILL, signal.SIGSTOP, 32, 33):
                signal.signal(number, signal.SIG_DFL)
        os.chroot(spec["root"])
        os.chdir("/")
        _mount("proc", "/proc", "proc")
        # As runc does it: a working directory that the image lacks is made.
        if not os.path.isdir(spec["directory"]):
            os.makedirs(spec["directory"])
        os.chdir(spec["directory"])
        if spec.get("group") is not None:
            os.setgroups([])
            os.setgid(spec["group"])
        if spec.get("user") is not None:
            _become(spec["user"])
        os.execvpe(spec["arguments"][0], spec["arguments"], spec["environment"])
    except BaseException as error:
        os.write(told, _start_error(spec["arguments"][0], error).encode())
    finally:
        os._exit(128)


def main():
    with open(sys.argv[1]) as file:
        spec = json.load(file)
    # The node may be gone before the program: nothing of it stays.
    _LIBC.prctl(1, signal.SIGKILL)
    os.setsid()
    for group in spec["groups"]:
        with open(group, "w") as file:
            file.write(str(os.getpid()))
    if _LIBC.unshare(_CLONE_NEWNS | _CLONE_NEWPID | _CLONE_NEWUTS) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    name = spec["hostname"].encode()
    _LIBC.sethostname(name, len(name))
    _build_root(spec["root"], spec)
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(3)
        os.setsid()
        _run(spec, writer)
    os.close(writer)
    words = b""
    while block := os.read(reader, 65536):
        words += block
    said = {"error": words.decode()} if words else {"pid": pid}
    os.write(3, json.dumps(said).encode())
    os.close(3)
    null = os.open("/dev/null", os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    _, status = os.waitpid(pid, 0)
    os._exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))


if __name__ == "__main__":
    main()
