"""Jobs as Batch Shipyard's configurations, there and back; and readers that withstand anything."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from forked import run_python
from tarmac.distribution import install_hint
from tarmac.documents import dump_document, parse_document
from tarmac.errors import RequestError
from tarmac.formats import read_any, read_paths, read_shipyard, write_shipyard
from tarmac.formats.shipyard.reading.properties import all_properties, check, without_secrets
from tarmac.formats.shipyard.report import Report
from tarmac.jobs import Job, parse_job, plan_tasks

SAMPLES = Path(__file__).parents[3] / "shared" / "samples" / "batch-shipyard"


@pytest.mark.skipif(not SAMPLES.exists(), reason="the public samples are not beside the repository")
@pytest.mark.parametrize("path", ["2.x/Chainer-GPU", "3.x/Chainer-GPU", "3.x/PyTorch-GPU"])
def test_published_recipes_are_given_back_but_for_their_credentials(path):
    ((reading, base),) = read_paths([SAMPLES / path])
    written, notes = write_shipyard(reading.jobs, base)
    whole: dict = {}
    for name in ("config", "pool", "jobs"):
        (file,) = base.glob(f"{name}.*")
        whole |= yaml.safe_load(file.read_text())
    assert written == whole
    assert notes == []


NATIVE = """
name: train
environment:
  image: my/image
  user: "5:6"
  mounts: [{source: /data, target: /mnt/data, read_only: true}]
resources: {cpus: 2, memory: 4GiB, gpus: 1, shm: 256MiB}
env: {SEED: "7", NOTE: "{{ '{{' }} x }}"}
timeout: 25h
retries: {count: 2, backoff: 0}
priority: 3
tasks:
  - name: fetch
    command: [python, -c, "print('a b')"]
    inputs:
      - {from: "https://x/y.tgz", mode: "0755"}
      - {from: "az://box/in/x", to: d, include: ["*.fa"], exclude: ["tmp/*"]}
    outputs: [{path: "**/*.bin", to: "az://box/out", when: always, exclude: [t.bin]}]
  - name: fit
    needs: [fetch]
    command: python fit.py --lr {{ lr }} > log
    sweep: {grid: {lr: [0.1, 0.01]}}
after_all: {name: end, command: [echo, done]}
"""


def test_a_native_job_is_written_and_means_the_same_when_it_is_read():
    job = parse_job(NATIVE)
    value, notes = write_shipyard([job])
    text = yaml.safe_dump(value)
    ((back,), _, refusals) = read_parts(text)
    assert not refusals
    before, after = [*plan_tasks(job, Path())], [*plan_tasks(back, Path())]
    assert [task.name for task in after] == ["fetch", "fit-0", "fit-1", "end"]
    for old, new in zip(before, after, strict=True):
        assert new.command == old.command
        for name in ("image", "user", "mounts"):
            assert getattr(new.environment, name) == getattr(old.environment, name)
        assert (new.resources, new.timeout_s) == (old.resources, old.timeout_s)
        assert (new.retries, new.priority) == (old.retries, old.priority)
        assert old.env.items() <= new.env.items()
    assert after[1].command == ("sh", "-c", "python fit.py --lr 0.1 > log")
    assert [*after[1].needs] == ["fetch"]
    assert [*after[3].needs] == ["fetch", "fit-0", "fit-1"]
    inputs = {given.source: given for given in after[0].inputs}
    assert (inputs["https://x/y.tgz"].to, inputs["https://x/y.tgz"].mode) == ("y.tgz", "0755")
    stored = inputs["az://box/in/x"]
    assert (stored.to, stored.include, stored.exclude) == ("d", ("*.fa",), ("tmp/*",))
    (old,), (new,) = before[0].outputs, after[0].outputs
    assert (old.path, new.path, new.include) == ("**/*.bin", "*", ("*.bin",))
    assert (new.to, new.when, new.exclude) == (old.to, old.when, old.exclude)
    assert any("after_all is a merge task" in note for note in notes)
    assert not any("tries again at once" in note for note in notes)
    job = parse_job(NATIVE.replace("backoff: 0", "backoff: 0, exit_codes: [75]"))
    assert any("tries again at once" in note for note in write_shipyard([job])[1])


@pytest.mark.skipif(not SAMPLES.exists(), reason="the public samples are not beside the repository")
def test_what_is_written_has_only_what_the_published_schemas_have():
    value, _ = write_shipyard([parse_job(NATIVE)])
    mapping: dict = {}
    for name in ("config", "jobs"):
        schema = yaml.safe_load((SAMPLES / "schemas" / f"{name}.yaml").read_text())
        mapping |= schema["mapping"]
    hold(value, {"type": "map", "mapping": mapping}, "")


def hold(value, schema, path: str) -> None:
    if isinstance(value, dict):
        for key, part in value.items():
            other = next((v for k, v in schema["mapping"].items() if k.startswith("regex;")), None)
            inner = schema["mapping"].get(key, other)
            assert inner is not None, f"{path}.{key}"
            hold(part, inner, f"{path}.{key}")
    elif isinstance(value, list):
        for part in value:
            hold(part, schema["sequence"][0], f"{path}[]")
    else:
        kinds = {"str": str, "text": (str, int), "int": int, "bool": bool, "float": (int, float)}
        assert isinstance(value, kinds[schema["type"]]), path


def read_parts(text: str):
    reading = read_shipyard([parse_document(text, "written.yaml")])
    return list(reading.jobs), reading.notes, reading.refusals


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ("command: x", "x: Batch Shipyard runs containers only: give task 'x' an image"),
        ("environment: {image: i}\nname: a.b", "the job is called 'a.b'; an id has letters"),
        (
            "environment: {image: i}\nsecrets: {A: {env: A}}",
            "x: the secret A: Batch Shipyard knows Key Vault secrets of many variables only",
        ),
        ("environment: {image: i}\ninputs: [{from: data}]", "input data: nodes reach URLs"),
        (
            f"environment: {{image: i}}\ninputs: [{{from: 'https://x/y', sha256: {'a' * 64}}}]",
            "sha256 and unpack cannot be said",
        ),
        ("environment: {image: i}\noutputs: [{path: a, to: here}]", "kept on az:// only, not here"),
        ("environment: {image: i, user: me}", "its tasks' users are not one UID:GID for all"),
    ],
)
def test_what_a_configuration_cannot_say_is_refused(changes, message):
    text = changes if "name:" in changes else f"name: x\n{changes}"
    with pytest.raises(RequestError) as caught:
        write_shipyard([parse_job(text)])
    assert message in str(caught.value)


WORDS = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cs", "Cc"), exclude_characters="\x85\u2028"),
    min_size=1,
    max_size=12,
)
NAMES = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9_-]{0,8}[A-Za-z0-9])?", fullmatch=True)
TASKS = st.fixed_dictionaries(
    {"name": NAMES, "environment": st.just({"image": "my/image"})},
    optional={
        "command": st.lists(WORDS, min_size=1, max_size=4),
        "env": st.dictionaries(st.sampled_from(["A", "B"]), WORDS),
        "timeout": st.integers(1, 10**6),
        "retries": st.fixed_dictionaries({"count": st.integers(0, 9), "backoff": st.just(0)}),
        "resources": st.fixed_dictionaries(
            {"cpus": st.integers(1, 64), "gpus": st.integers(0, 8)},
            optional={"memory": st.integers(1, 2**40), "shm": st.integers(1, 2**40)},
        ),
    },
)


@given(NAMES, st.lists(TASKS, min_size=1, max_size=3, unique_by=lambda task: task["name"]))
@example("0E0", [{"name": "0", "environment": {"image": "my/image"}}])
def test_any_job_of_containers_means_the_same_after_there_and_back(name, tasks):
    job = Job.model_validate({"name": name, "tasks": tasks})
    try:
        value, _ = write_shipyard([job])
    except RequestError:
        # A text with a placeholder has no value.
        return
    (back,), _, refusals = read_parts(dump_document(value))
    assert not refusals
    pairs = zip(plan_tasks(job, Path()), plan_tasks(back, Path()), strict=True)
    for old, new in pairs:
        assert new.name == old.name
        assert new.command == old.command
        assert (new.resources, new.timeout_s) == (old.resources, old.timeout_s)
        assert new.retries.count == old.retries.count
        assert old.env.items() <= new.env.items()
    assert write_shipyard([back])[0] == value


KEYS = sorted(
    {
        *("job_specifications", "pool_specification", "global_resources", "credentials"),
        *("id", "tasks", "merge_task", "task_factory", "parametric_sweep", "random", "product"),
        *("file", "repeat", "generate", "integer", "start", "stop", "step", "zip", "distribution"),
        *("uniform", "a", "b", "docker_image", "singularity_image", "image", "command"),
        *("entrypoint", "gpus", "gpu", "vm_size", "vm_count", "environment_variables"),
        *("resource_files", "file_path", "blob_source", "file_mode", "depends_on"),
        *("depends_on_range", "input_data", "output_data", "azure_storage", "azure_batch"),
        *("remote_path", "local_path", "include", "exclude", "storage_account_settings"),
        *("job_id", "task_id", "multi_instance", "num_instances", "mpi", "runtime", "options"),
        *("max_wall_time", "max_task_retries", "shm_size", "volumes", "data_volumes"),
        *("additional_docker_run_options", "user_identity", "specific_user", "uid", "gid"),
        *("priority", "autogenerated_task_id", "prefix", "zfill_width", "job_preparation"),
        *("azure_storage", "docker_registry", "host_path", "container_path", "recurrence"),
    }
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["x", "openmpi", "12:00:00", "device=0,1", "all", "{}", "{0} {a}", "a/b"])
    | st.sampled_from(["https://[x", "-v", "--cpus", "-e=1", "$AZ_BATCH_TASK_DIR/../x", "echo $X"])
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
    ),
    max_leaves=25,
)


def test_what_a_pool_says_of_gpus_is_noted():
    text = "resources: {gpus: {type: a100, count: 2}, gpu_memory: 40GiB}}"
    _, notes = write_shipyard([parse_job(f"{{name: x, environment: {{image: i}}, {text}")])
    assert "x: gpu_memory is the pool's vm_size" in notes
    assert "x: GPUs a100 are had by the pool's vm_size" in notes


@given(VALUES)
def test_any_document_is_jobs_or_a_designed_error(value):
    read_or_refused(value if isinstance(value, dict) else {"job_specifications": value})


# By name: what is right of it, where its kind alone would seldom be.
RIGHT = {
    "id": NAMES,
    "docker_image": st.sampled_from(["x", "my.io/a/b:1"]),
    "command": st.sampled_from(["x", "a 'b c'", "echo $X > y", "{{ x }}", "a {{{{ x }}}}"]),
    "entrypoint": st.sampled_from(["sh", "python -u"]),
    "environment_variables": st.dictionaries(st.sampled_from("AB"), WORDS | st.integers()),
    "max_task_retries": st.integers(-1, 5),
    "max_wall_time": st.sampled_from(["12:00:00", "1.00:00:00"]),
    "shm_size": st.sampled_from(["64m", "1g"]),
    "gpus": st.sampled_from(["all", "disable", 2, "device=0,1"]),
    "user_identity": st.just({"specific_user": {"uid": 1, "gid": 2}}),
    "data_volumes": st.just([]),
    "shared_data_volumes": st.just([]),
    "depends_on": st.just([]),
    "task_factory": st.sampled_from(
        [
            {"repeat": 2},
            {"parametric_sweep": {"zip": ["ab", ["c", "d"]]}},
            {"random": {"generate": 2, "distribution": {"gauss": {"mu": 0, "sigma": 1}}}},
            {"custom": {"module": "m"}},
        ]
    ),
    "num_instances": st.sampled_from([1, 2, "pool_current_dedicated"]),
    "file_path": st.sampled_from(["a", "a/b"]),
    "blob_source": st.just("https://x/y"),
    "file_mode": st.just("0644"),
    "remote_path": st.sampled_from(["box", "box/a/b"]),
    "local_path": st.sampled_from(["$AZ_BATCH_TASK_WORKING_DIR/x", "/mnt", "wd"]),
    "job_id": st.just("other"),
    "priority": st.integers(-1000, 1000),
    "autogenerated_task_id": st.just({"prefix": "t-", "zfill_width": 2}),
    "additional_docker_run_options": st.just(["--cpus=2", "-v", "/a:/b", "--privileged"]),
    "include": st.lists(st.sampled_from(["*.a", "x/*"]), max_size=2),
    "exclude": st.lists(st.sampled_from(["*.a", "x/*"]), max_size=2),
    "executable_path": st.just("/Opt/mpirun"),
    "processes_per_node": st.sampled_from([2, "nproc"]),
}
ALWAYS = {"docker_image", "tasks", "num_instances", "command"}
NEVER = {"image", "singularity_image", "depends_on_range", "gpu", "container", "file_share"}


def shaped(found, name: str = ""):
    """Return values in the form of a property, most of them right."""
    if name in RIGHT:
        return RIGHT[name]
    if found.kind == "map":
        parts = {k: shaped(child, k) for k, child in found.children.items() if k not in NEVER}
        if found.wildcard is not None:
            parts["name"] = shaped(found.wildcard)
        needed = {
            k for k in parts if k in ALWAYS or (k in found.children and found.children[k].required)
        }
        optional = {key: part | st.none() for key, part in parts.items() if key not in needed}
        return st.fixed_dictionaries({key: parts[key] for key in needed}, optional=optional)
    if found.kind == "list":
        items = st.one_of(*(shaped(item) for item in found.items))
        return st.lists(items, min_size=int(name in ALWAYS), max_size=2)
    if found.choices:
        return st.sampled_from(found.choices)
    kinds = {
        "str": st.sampled_from(["x", "a b"]),
        "text": st.integers(0, 5),
        "int": st.integers(0, 5),
        "float": st.sampled_from([0.5, 2.0]),
        "bool": st.booleans(),
        "secret": st.just("hunter2"),
        "any": SCALARS,
    }
    return kinds[found.kind]


JOBS = st.lists(
    shaped(all_properties()["jobs"].children["job_specifications"].items[0]), min_size=1, max_size=2
)


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(JOBS)
def test_any_jobs_of_the_right_form_are_read_or_refused_and_given_back(jobs):
    read_or_refused({"job_specifications": jobs})


SECTIONS = {
    key: part
    for name in ("pool", "config", "credentials")
    for key, part in all_properties()[name].children.items()
}


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(
    st.fixed_dictionaries(
        {"job_specifications": JOBS}, optional={k: shaped(part, k) for k, part in SECTIONS.items()}
    )
)
def test_no_secret_of_any_configuration_is_said_or_kept(value):
    said = ""
    try:
        reading = read_shipyard([parse_document(json.dumps(value), "all.yaml")])
        said = "".join(job.model_dump_json() for job in reading.jobs)
        said += "".join([*reading.notes, *reading.refusals])
    except RequestError as error:
        said = str(error)
    assert "hunter2" not in said


def read_or_refused(value: dict) -> None:
    text = json.dumps(value)
    try:
        reading = read_shipyard([parse_document(text, "jobs.json")])
    except RequestError:
        return
    written, _ = write_shipyard(reading.jobs)
    assert written == without_secrets(value)
    again = read_shipyard([parse_document(json.dumps(written), "again.json")])
    # Credentials are not kept, so logins may be missing.
    assert [job.name for job in again.jobs] == [job.name for job in reading.jobs]
    assert write_shipyard(again.jobs)[0] == written
    for job in reading.jobs:
        # What needs itself through others is seen when the job is planned.
        with contextlib.suppress(RequestError):
            assert [*plan_tasks(job, Path())]


def test_what_is_secret_is_pruned_wherever_it_stands():
    value = {
        "credentials": {"batch": {"account_key": "hunter2"}},
        "batch_shipyard": {"encryption": {"pfx": {"filename": "f", "passphrase": "hunter2"}}},
        "job_specifications": [{"id": "a"}],
    }
    assert without_secrets(value) == {
        "batch_shipyard": {"encryption": {"pfx": {"filename": "f"}}},
        "job_specifications": [{"id": "a"}],
    }


def tarmac(folder: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "tarmac", *arguments, cwd=folder, env=os.environ | env)


RECIPE = {
    "config.yaml": "batch_shipyard: {storage_account_settings: s}\n",
    "pool.yaml": (
        "pool_specification:\n  id: p\n  vm_configuration: {}\n  vm_size: STANDARD_NC6\n"
        "  vm_count: {dedicated: 1}\n"
    ),
    "credentials.yaml": (
        "credentials:\n  docker_registry:\n    my.io: {username: me, password: hunter2hunter2}\n"
    ),
    "jobs.yaml": (
        "job_specifications:\n- id: train\n  tasks:\n  - docker_image: my.io/x\n"
        "    max_wall_time: 12:00:00\n    command: python train.py\n"
    ),
}


def test_the_command_line_shows_a_folder_and_converts_it_there_and_back(tmp_path):
    (tmp_path / "config").mkdir()
    for name, text in RECIPE.items():
        (tmp_path / "config" / name).write_text(text)
    shown = tarmac(tmp_path, "run", ".", "--dry-run")
    assert shown.returncode == 0, shown.stderr
    assert "$ python train.py" in shown.stdout
    assert "container my.io/x, all CPUs, shared, at most 43200 s\n    1 GPU" in shown.stdout
    assert "STANDARD_NC6 has 1 GPU" in shown.stderr
    changed = tarmac(
        tmp_path, "run", ".", "--dry-run", "--set", "pool_specification.vm_size=STANDARD_NC24"
    )
    assert "\n    4 GPUs" in changed.stdout
    there = tarmac(tmp_path, "convert", ".")
    assert "timeout: 43200.0" in there.stdout
    (tmp_path / "job.yaml").write_text(there.stdout)
    back = tarmac(tmp_path, "convert", "job.yaml", "--to", "shipyard")
    written = yaml.safe_load(back.stdout)
    assert written["job_specifications"][0]["tasks"][0]["max_wall_time"] == "12:00:00"
    assert written["pool_specification"]["vm_size"] == "STANDARD_NC6"
    hkube = tarmac(tmp_path, "convert", ".", "--to", "hkube")
    assert json.loads(hkube.stdout)["algorithmImage"] == "my.io/x"
    refused = tarmac(tmp_path, "run", ".", "--fake-gpus", "1")
    assert refused.returncode == 2
    assert "nothing says where my.io/login is to be found" in refused.stderr
    for done in (shown, changed, there, back, refused):
        assert "hunter2" not in done.stdout + done.stderr


def test_what_cannot_be_run_is_shown_and_given_back_and_refused_with_a_reason(tmp_path):
    (tmp_path / "jobs.yaml").write_text(
        "job_specifications:\n- id: a\n  tasks:\n  - docker_image: x\n    command: echo\n"
        "    multi_instance: {num_instances: 4}\n"
    )
    shown = tarmac(tmp_path, "run", "jobs.yaml", "--dry-run")
    assert shown.returncode == 0
    assert "cannot be run here: jobs.yaml:6:22: " in shown.stderr
    refused = tarmac(tmp_path, "run", "jobs.yaml")
    assert refused.returncode == 2
    assert "4 machines are needed, and this is one" in refused.stderr
    back = tarmac(tmp_path, "convert", "jobs.yaml", "--to", "shipyard")
    assert yaml.safe_load(back.stdout) == yaml.safe_load((tmp_path / "jobs.yaml").read_text())


@pytest.fixture
def azure():
    """Return the variables of an account whose one container has two blobs."""
    pytest.importorskip("obstore", reason=f"obstore is not installed; {install_hint('objects')}")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            blob = (
                "<Blob><Name>in/{}.fa</Name><Properties><Content-Length>1</Content-Length>"
                "<Content-Type>text/plain</Content-Type><Etag>0x1</Etag>"
                "<Last-Modified>Wed, 09 Sep 2009 09:20:02 GMT</Last-Modified></Properties></Blob>"
            )
            body = (
                '<?xml version="1.0" encoding="utf-8"?><EnumerationResults ContainerName="box">'
                f"<Blobs>{blob.format('a')}{blob.format('b')}</Blobs><NextMarker/>"
                "</EnumerationResults>"
            ).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/xml")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield {
        "AZURE_STORAGE_ACCOUNT_NAME": "me",
        "AZURE_STORAGE_ACCOUNT_KEY": "aHVudGVyMg==",
        "AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
        "AZURE_ALLOW_HTTP": "true",
    }
    server.shutdown()


def test_a_factory_over_files_makes_a_task_for_each_blob_of_the_account(tmp_path, azure):
    (tmp_path / "jobs.yaml").write_text(
        "job_specifications:\n- id: a\n  tasks:\n  - docker_image: x\n"
        "    command: echo {file_name_no_extension}\n    task_factory:\n      file:\n"
        "        azure_storage: {storage_account_settings: s, remote_path: box/in}\n"
        "        task_filepath: file_name\n"
    )
    shown = tarmac(tmp_path, "run", "jobs.yaml", "--dry-run", **azure)
    assert shown.returncode == 0, shown.stderr
    no_engine = "cannot be run here: neither docker nor podman is here"
    assert "cannot be run" not in shown.stderr.replace(no_engine, "")
    for text in ("$ echo a", "$ echo b", "az://box/in/a.fa -> a.fa"):
        assert text in shown.stdout


def test_other_files_are_not_taken_for_batch_shipyards():
    assert read_any(parse_document("{name: x, command: [a]}", "x")).format == "tarmac"


def test_the_reports_order_is_that_of_the_files():
    from tarmac.formats.shipyard.reading.merge import merge

    first = parse_document("pool_specification: {vm_sice: 1}", "pool.yaml")
    second = parse_document("job_specifications: [{id: 1}]", "jobs.yaml")
    report = Report(merge([first, second]))
    check({"pool_specification": {"vm_sice": 1}, "job_specifications": [{"id": 1}]}, report)
    with pytest.raises(RequestError) as caught:
        report.finish()
    lines = [line for line in str(caught.value).splitlines() if ".yaml:" in line]
    assert [line.partition(":")[0] for line in lines] == ["pool.yaml"] * (len(lines) - 1) + [
        "jobs.yaml"
    ]


def test_a_converted_job_that_is_changed_is_written_from_what_it_says_now(tmp_path):
    (tmp_path / "pool.yaml").write_text(RECIPE["pool.yaml"])
    (tmp_path / "jobs.yaml").write_text(
        "job_specifications:\n- id: train\n  auto_complete: true\n  tasks:\n  - docker_image: x\n"
        "    id: '08'\n    command: echo 1\n    retention_time: 1.00:00:00\n"
        "    environment_variables: {A: '1e3'}\n"
    )
    job = tmp_path / "job.yaml"
    job.write_text(tarmac(tmp_path, "convert", "jobs.yaml").stdout)
    same = tarmac(tmp_path, "convert", "job.yaml", "--to", "shipyard")
    assert "was changed" not in same.stderr
    (task,) = yaml.safe_load(same.stdout)["job_specifications"][0]["tasks"]
    assert (task["id"], task["retention_time"]) == ("08", "1.00:00:00")
    assert "id: '08'" in same.stdout
    assert "A: '1e3'" in same.stdout
    changed = yaml.safe_load(job.read_text())
    changed["tasks"][0]["command"] = ["echo", "2"]
    changed["tasks"][0]["resources"]["gpus"] = 2
    job.write_text(dump_document(changed))
    back = tarmac(tmp_path, "convert", "job.yaml", "--to", "shipyard")
    written = yaml.safe_load(back.stdout)
    (task,) = written["job_specifications"][0]["tasks"]
    assert (task["command"], task["gpus"]) == ("echo 2", 2)
    assert task["environment_variables"] == {"A": "1e3"}
    assert written["pool_specification"]["vm_size"] == "STANDARD_NC6"
    assert "train: was changed after it was converted" in back.stderr
    assert "without auto_complete, tasks[].retention_time" in back.stderr


def test_what_cannot_be_run_here_becomes_a_job_file_that_says_so(tmp_path):
    (tmp_path / "jobs.yaml").write_text(
        "job_specifications:\n- id: a\n  tasks:\n  - docker_image: x\n    command: echo\n"
        "    multi_instance: {num_instances: 4}\n"
    )
    there = tarmac(tmp_path, "convert", "jobs.yaml")
    assert there.returncode == 0
    assert "cannot be run here: jobs.yaml:6:22: " in there.stderr
    (tmp_path / "job.yaml").write_text(there.stdout)
    (said,) = yaml.safe_load(there.stdout)["refusals"]
    assert "4 machines are needed, and this is one" in said
    refused = tarmac(tmp_path, "run", "job.yaml")
    assert refused.returncode == 2
    assert "4 machines are needed, and this is one" in refused.stderr
    shown = tarmac(tmp_path, "run", "job.yaml", "--dry-run")
    assert shown.returncode == 0
    assert "cannot be run here" in shown.stderr
    back = tarmac(tmp_path, "convert", "job.yaml", "--to", "shipyard")
    assert yaml.safe_load(back.stdout) == yaml.safe_load((tmp_path / "jobs.yaml").read_text())


def test_what_needs_a_task_that_may_fail_goes_on(tmp_path):
    (tmp_path / "job.yaml").write_text(
        "name: a\ntasks:\n"
        "- {name: fails, command: [sh, -c, exit 1], on_failure: continue}\n"
        "- {name: after, needs: [fails], command: [touch, went-on],"
        " outputs: [{path: went-on, to: kept}]}\n"
        "- {name: blocks, command: [sh, -c, exit 1]}\n"
        "- {name: never, needs: [blocks, fails], command: [touch, absent], "
        "outputs: [{path: absent, to: kept}]}\n"
    )
    done = tarmac(tmp_path, "run", "job.yaml")
    assert done.returncode == 1
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["went-on"]


@pytest.mark.parametrize("place", ["https://[", "http://[x", "az://[", "HTTPS://h/p?q#f"])
def test_an_address_that_is_none_does_not_crash_the_writer(place):
    job = {"name": "a", "environment": {"image": "i"}, "inputs": [{"from": place}]}
    with contextlib.suppress(RequestError):
        write_shipyard([parse_job(json.dumps(job))])


def test_what_a_container_asks_for_is_written_and_read_again():
    text = (
        "name: a\nenvironment: {image: i, ipc: host, ulimits: [memlock=-1]}\n"
        "resources: {shares_cpus: true}\ntasks: [{name: t, on_failure: continue}]\n"
    )
    value, _ = write_shipyard([parse_job(text)])
    ((back,), _, _) = read_parts(yaml.safe_dump(value))
    (task,) = plan_tasks(back, Path())
    assert (task.environment.ipc, task.environment.ulimits) == ("host", ("memlock=-1",))
    assert task.resources.shares_cpus
    assert task.continues
