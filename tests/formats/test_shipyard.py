"""Batch Shipyard's configurations as jobs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tarmac.documents import parse_document
from tarmac.errors import RequestError, TarmacError
from tarmac.formats import read_any, read_paths, read_shipyard, read_the_job
from tarmac.jobs import plan_tasks

# Azure/batch-shipyard at 3329150, recipes/Chainer-GPU/config/jobs.json.
CHAINER_2 = """{
  "job_specifications": [{
    "id": "chainerjob",
    "tasks": [{
      "image": "chainer/chainer",
      "remove_container_after_exit": true,
      "resource_files": [{
        "file_path": "train_mnist.py",
        "blob_source": "https://raw.githubusercontent.com/pfnet/chainer/master/train_mnist.py"
      }],
      "command": "python -u train_mnist.py -g 0",
      "gpu": true
    }]
  }]
}"""

POOL = """
pool_specification:
  id: my-pool
  vm_configuration: {platform_image: {publisher: Canonical, offer: UbuntuServer, sku: 18.04-LTS}}
  vm_count: {dedicated: 2}
  vm_size: STANDARD_NC12
"""

CONFIG = """
batch_shipyard: {storage_account_settings: mystorageaccount}
global_resources:
  volumes:
    data_volumes:
      data: {host_path: /data, container_path: /mnt/data, bind_options: ro}
      scratch: {container_path: /scratch}
    shared_data_volumes:
      share: {volume_driver: azurefile, container_path: /share, azure_file_share_name: s}
"""

CREDENTIALS = """
credentials:
  batch: {account_key: hunter2hunter2, account_service_url: https://x}
  storage:
    mystorageaccount: {account: me, account_key: hunter2hunter2}
  docker_registry:
    my.registry.io: {username: me, password: hunter2hunter2}
    vault.io: {username: me, password_keyvault_secret_id: https://vault/secrets/p}
"""


def read(text: str, *others: str):
    documents = [parse_document(other, f"other-{n}.yaml") for n, other in enumerate(others)]
    return read_shipyard([*documents, parse_document(text, "jobs.yaml")])


def tasks_of(text: str, *others: str):
    (job,) = read(text, *others).jobs
    return {task.name: task for task in plan_tasks(job, Path())}


def one(task: str, *others: str, job: str = ""):
    """Read a job of one task; each line of both belongs to it."""
    (found,) = tasks_of(whole(task, job=job), *others).values()
    return found


def whole(task: str, *, job: str = "", image: str = "docker_image: x") -> str:
    job_lines = "".join(f"  {line}\n" for line in job.strip().splitlines())
    lines = "".join(f"    {line}\n" for line in [image, *task.strip().splitlines()] if line)
    return f"job_specifications:\n- id: a\n{job_lines}  tasks:\n  - {lines.lstrip()}"


def refusal(text: str, *others: str) -> str:
    with pytest.raises(RequestError) as caught:
        read(text, *others)
    return str(caught.value)


def test_the_chainer_recipe_of_before_3_0_is_read_as_it_is():
    reading = read(CHAINER_2)
    (task,) = plan_tasks(reading.jobs[0], Path())
    assert (reading.jobs[0].name, task.name) == ("chainerjob", "task-00000")
    assert task.environment.image == "chainer/chainer"
    assert task.command == ("python", "-u", "train_mnist.py", "-g", "0")
    assert task.resources.gpus == 1
    (given,) = task.inputs
    assert given.to == "train_mnist.py"
    assert any("image: is docker_image since 3.0" in note for note in reading.notes)
    assert read_any(parse_document(CHAINER_2, "jobs.json")).format == "shipyard"


def test_before_3_0_a_task_gets_gpus_only_where_it_asks_and_unknown_names_are_said():
    text = json.dumps(
        {
            "job_specifications": [{"id": "a", "tasks": [{"image": "x", "comand": 1}]}],
            "pool_specification": {
                "id": "p",
                "vm_size": "STANDARD_NC24",
                "vm_count": 1,
                "publisher": "Canonical",
                "offer": "UbuntuServer",
                "sku": "16.04-LTS",
            },
        }
    )
    reading = read_shipyard([parse_document(text, "jobs.json")])
    (task,) = plan_tasks(reading.jobs[0], Path())
    assert task.resources.gpus == 0
    # The first files of YAML still said image, and gave GPUs to every task.
    assert tasks_of(whole("", image="image: x"), POOL)["task-00000"].resources.gpus == 2
    assert any(
        "comand: is no property, and is kept; did you mean 'command'" in note
        for note in reading.notes
    )


def test_files_are_merged_mapping_into_mapping_and_lists_replaced():
    first = "global_resources: {docker_images: [a, b], volumes: {data_volumes: {x: {}}}}"
    second = "global_resources: {docker_images: [c], volumes: {data_volumes: {y: {}}}}"
    (job,) = read(whole(""), first, second).jobs
    resources = job.original["shipyard"]["global_resources"]
    assert resources == {"docker_images": ["c"], "volumes": {"data_volumes": {"x": {}, "y": {}}}}


@pytest.mark.parametrize(
    ("size", "gpus"),
    [
        ("STANDARD_NC6", 1),
        ("standard_nv12", 2),
        ("STANDARD_ND24rs", 4),
        ("STANDARD_ND40rs_v2", 8),
        ("STANDARD_F1", 0),
        ("STANDARD_NC96ads_A100_v4", 1),
    ],
)
def test_a_task_gets_all_gpus_of_its_pools_machines(size, gpus):
    assert one("", POOL.replace("STANDARD_NC12", size)).resources.gpus == gpus


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("gpus: all", 2),
        ("gpus: disable", 0),
        ("gpus: 1", 1),
        ("gpus: '2'", 2),
        ('gpus: "device=0,1"', 2),
        ("gpu: false", 0),
        ("gpu: true", 2),
        ("additional_docker_run_options: ['--gpus=1']", 1),
    ],
)
def test_gpus_in_every_form(text, gpus):
    assert one(text, POOL).resources.gpus == gpus


def test_the_jobs_gpus_hold_for_a_task_that_says_nothing():
    assert one("", POOL, job="gpus: disable").resources.gpus == 0
    assert one("gpus: 1", POOL, job="gpus: disable").resources.gpus == 1


def test_gpus_on_a_pool_without_any_are_refused():
    text = refusal(whole("gpus: 1"), POOL.replace("STANDARD_NC12", "STANDARD_F1"))
    assert "jobs.yaml:5:5: job_specifications[0].tasks[0].gpus: GPUs are requested" in text
    assert "STANDARD_F1 has none" in text
    assert "expected all, disable, a number" in refusal(whole("gpus: some"))


def test_without_a_pool_it_is_said_that_no_gpu_is_given():
    reading = read(whole(""))
    assert any("no pool file says whether there are GPUs" in note for note in reading.notes)


def test_neither_image_nor_both_are_taken():
    assert "none is given" in refusal(whole("command: x", image=""))
    both = refusal(whole("singularity_image: docker://y"))
    assert "jobs.yaml:4:5: job_specifications[0].tasks[0]: expected one of docker_image" in both
    assert "both are given" in both


def test_singularity_images_of_docker_run_and_others_are_refused_but_shown():
    reading = read(whole("", image="singularity_image: docker://a/b"))
    assert reading.jobs[0].tasks[0].environment.image == "a/b"
    assert not reading.refusals
    reading = read(whole("", image="singularity_image: library://a/b"))
    assert "there is no Singularity here" in reading.refusals[0]


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("python -u x.py --name 'a b'", ("python", "-u", "x.py", "--name", "a b")),
        ("echo '$HOME; ls'", ("echo", "$HOME; ls")),
        ('echo "a > b"', ("echo", "a > b")),
        ("echo $HOME", ("sh", "-c", "echo $HOME")),
        ('bash -c "echo $HOME"', ("sh", "-c", 'bash -c "echo $HOME"')),
        ("a > b", ("sh", "-c", "a > b")),
        ("a && b", ("sh", "-c", "a && b")),
        ("echo costs 5$", ("echo", "costs", "5$")),
        ("echo \\$HOME", ("echo", "$HOME")),
        ('docker ps --format "{{ Names }}"', ("docker", "ps", "--format", "{{ Names }}")),
    ],
)
def test_a_command_is_words_unless_a_shell_has_something_to_do(text, command):
    assert one(f"command: {json.dumps(text)}").command == command


def test_no_command_is_the_images_own_and_an_entrypoint_goes_before_one():
    assert one("command: null").command == ()
    task = one("entrypoint: python -u\ncommand: x.py")
    assert (task.environment.entrypoint, task.command) == (("python", "-u"), ("x.py",))
    task = one("entrypoint: /entry\ncommand: x $HOME")
    assert (task.environment.entrypoint, task.command) == (("sh",), ("-c", "exec /entry x $HOME"))


def test_a_quotation_without_an_end_is_said():
    text = refusal(whole("command: echo 'a"))
    assert 'jobs.yaml:5:5: job_specifications[0].tasks[0].command: "echo \'a": No closing' in text


def test_a_tasks_variables_are_over_its_jobs():
    task = one(
        "environment_variables: {A: task, N: 5}",
        job="environment_variables: {A: job, B: job}",
    )
    assert [task.env[name] for name in "ABN"] == ["task", "job", "5"]
    assert task.env["AZ_BATCH_TASK_ID"] == "task-00000"
    assert task.env["AZ_BATCH_TASK_WORKING_DIR"] == "/tarmac"
    assert "'A-B' is no name of a variable" in refusal(whole("environment_variables: {A-B: 1}"))


def test_a_secret_of_many_variables_comes_whole_and_that_is_said():
    text = whole("environment_variables_keyvault_secret_id: https://vault/secrets/env")
    reading = read(text)
    (task,) = plan_tasks(reading.jobs[0], Path())
    assert task.secrets["SHIPYARD_TASK_ENVIRONMENT"].vault_id == "https://vault/secrets/env"
    (note,) = (note for note in reading.notes if "keyvault" in note)
    assert "not each as a variable of its own" in note
    assert "--secret https://vault/secrets/env=file:PATH" in note


def test_nothing_of_the_credentials_gets_into_a_job_or_a_note(tmp_path):
    text = whole("", image="docker_image: my.registry.io/x")
    reading = read(text, CREDENTIALS, CONFIG)
    (job,) = reading.jobs
    assert "hunter2" not in job.model_dump_json() + "".join(reading.notes)
    assert "credentials" not in job.original["shipyard"]
    assert str(job.tasks[0].environment.login) == "(secret: my.registry.io/login)"
    assert any("--secret my.registry.io/login=env:VARIABLE" in note for note in reading.notes)
    (job,) = read(whole("", image="docker_image: vault.io/x"), CREDENTIALS).jobs
    assert job.tasks[0].environment.login.vault_id == "https://vault/secrets/p"


@pytest.mark.parametrize(
    "credentials",
    [
        "credentials: {batch: {account_key: [hunter2hunter2]}}",
        "credentials: {batch: {account_key: true, acount: hunter2hunter2}}",
        "credentials: {storage: {a: hunter2hunter2}}",
        "credentials: hunter2hunter2",
        "credentials: {slurm: {db_password: {a: hunter2hunter2}}}",
        "pool_specification: {rdp: {password: [hunter2hunter2]}}",
        "batch_shipyard: {encryption: {pfx: {passphrase: [hunter2hunter2]}}}",
    ],
)
def test_a_mistake_in_the_credentials_does_not_show_them(credentials):
    text = refusal(whole(""), credentials)
    assert "hunter2" not in text


@pytest.mark.parametrize("text", ["a: *hunter2", "a: !hunter2 x", "a: [hunter2", "a: 'hunter2"])
def test_credentials_that_are_no_yaml_are_not_shown(tmp_path, text):
    files(tmp_path, jobs=whole(""), credentials=text)
    for paths in ([tmp_path], [tmp_path / "credentials.yaml", tmp_path / "jobs.yaml"]):
        with pytest.raises(RequestError, match=r"credentials.yaml:1:\d+: cannot be read") as caught:
            read_paths(paths)
        assert "hunter2" not in str(caught.value)


def test_volumes_of_before_3_0_are_found():
    volumes = "{data_volumes: {d: {host_path: /d, container_path: /e}}}"
    config = f"global_resources: {{docker_volumes: {volumes}}}"
    (mount,) = one("data_volumes: [d]", config).environment.mounts
    assert (mount.source, mount.target) == ("/d", "/e")


def test_thousands_of_mistakes_are_counted_and_the_first_are_shown():
    lines = "\n".join(f"wrong{n}: 1" for n in range(3000))
    text = refusal(whole(lines))
    assert text.count("jobs.yaml:") == 20
    assert text.endswith("and 480 more")


def test_passwords_elsewhere_are_not_kept():
    pool = POOL + "  rdp: {username: me, password: hunter2hunter2}\n"
    (job,) = read(whole(""), pool).jobs
    assert job.original["shipyard"]["pool_specification"]["rdp"] == {"username": "me"}


def test_resource_files_are_inputs_with_their_modes():
    (given,) = one(
        "resource_files:\n- {file_path: a/b, blob_source: https://x/y, file_mode: '0750'}"
    ).inputs
    assert (given.source, given.to, given.mode) == ("https://x/y", "a/b", "0750")


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("{file_path: ../a, blob_source: https://x/y}", "leads out of the task's directory"),
        ("{file_path: /a, blob_source: https://x/y}", "leads out of the task's directory"),
        ("{file_path: a, blob_source: file:///etc/passwd}", "expected an HTTP or HTTPS URL"),
        ("{file_path: a, blob_source: 'https://[x'}", "expected an HTTP or HTTPS URL"),
        ("{file_path: a, blob_source: https://x, file_mode: rwx}", "expected an octal mode"),
    ],
)
def test_resource_files_that_cannot_be_are_refused(file, message):
    assert message in refusal(whole(f"resource_files: [{file}]"))


def test_tasks_depend_by_id_and_by_range():
    tasks = "".join(f"  - {{id: '{n}', docker_image: x}}\n" for n in (1, 2, 3))
    text = (
        f"job_specifications:\n- id: a\n  tasks:\n{tasks}"
        "  - {id: all, docker_image: x, depends_on_range: [1, 3]}\n"
        "  - {id: last, docker_image: x, depends_on: [all, '1']}\n"
    )
    found = tasks_of(text)
    assert [*found["all"].needs] == ["1", "2", "3"]
    assert [*found["last"].needs] == ["all", "1"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("depends_on: [tsk]", "'tsk' is no task of this job"),
        ("depends_on: [tas]", "did you mean 'task'?"),
        ("depends_on_range: [1, 2, 3]", "expected two numbers, the first and the last"),
        ("depends_on_range: [2, 1]", "expected two numbers"),
        ("depends_on_range: [1, 1000000000000]", "there is no task '1'"),
    ],
)
def test_dependencies_that_are_not_there_are_said(line, message):
    assert message in refusal(whole(f"id: task\n{line}"))


def test_ids_are_made_as_the_configuration_says():
    text = whole("", job="autogenerated_task_id: {prefix: 't', zfill_width: 2}")
    text += "  - docker_image: y\n  - {docker_image: z, id: t02}\n  - docker_image: x\n"
    assert [*tasks_of(text)] == ["t00", "t01", "t02", "t03"]
    shared = "batch_shipyard: {storage_account_settings: s, autogenerated_task_id: {prefix: ''}}"
    assert [*tasks_of(whole(""), shared)] == ["00000"]


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("id: a b", "'a b': an id has letters, digits, '-' and '_', at most 64"),
        (f"id: {'a' * 65}", "at most 64"),
        ("id: a\n- {docker_image: x, id: a}", "'a' is there twice"),
    ],
)
def test_ids_that_azure_refuses_are_refused(task, message):
    text = whole(task.replace("\n- ", "\nX"))
    assert message in refusal(text.replace("    X", "  - "))


def test_a_merge_task_needs_all_others():
    text = whole("", job="merge_task: {docker_image: y, command: merge}")
    text += "  - docker_image: y\n"
    found = tasks_of(text)
    assert [*found["merge-task-00000"].needs] == ["task-00000", "task-00001"]
    text = refusal(whole("", job="merge_task: {docker_image: y, depends_on: [a]}"))
    assert "depends_on: unknown property\n  a merge task is one task, which needs all" in text


def test_preparation_comes_before_all_tasks_and_release_after_them_on_the_machine_itself():
    found = tasks_of(
        whole("", job="job_preparation: {command: mkdir x}\njob_release: {command: rmdir x}")
    )
    assert [*found] == ["job-preparation", "task-00000", "job-release"]
    assert found["job-preparation"].environment.kind == "system"
    assert found["job-preparation"].command[:2] == ("/bin/bash", "-c")
    assert [*found["task-00000"].needs] == ["job-preparation"]
    assert found["job-release"].is_last


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("12:00:00", 43200), ("'00:30:00'", 1800), ("1.12:00:00", 129600), ("00:00:90", 90)],
)
def test_wall_times_with_and_without_quotes(text, seconds):
    assert one(f"max_wall_time: {text}").timeout_s == seconds
    assert one("", job=f"max_wall_time: {text}").timeout_s == seconds


@pytest.mark.parametrize("text", ["'3600'", "12:00", "1d", "'-1:00:00'", "00:00:00", "1.2.3"])
def test_other_wall_times_are_refused(text):
    assert "max_wall_time: " in refusal(whole(f"max_wall_time: {text}"))


def test_retries_and_no_limit_of_them():
    assert one("max_task_retries: 3").retries.count == 3
    assert one("", job="max_task_retries: 2").retries.count == 2
    assert one("max_task_retries: 0", job="max_task_retries: 2").retries.count == 0
    reading = read(whole("max_task_retries: -1"))
    assert reading.jobs[0].tasks[0].retries.count == 1000
    assert any("-1: at most 1,000 times here" in note for note in reading.notes)
    assert "-2: expected at least 0" in refusal(whole("max_task_retries: -2"))


def test_exit_conditions_without_effect_are_said():
    text = "exit_conditions: {default: {exit_options: {job_action: terminate}}}"
    assert any("terminate is without effect here" in note for note in read(whole(text)).notes)
    text = "exit_conditions: {default: {exit_options: {job_action: none}}}"
    assert not any("exit_options" in note for note in read(whole(text)).notes)


def test_a_priority_is_checked():
    assert one("", job="priority: 5").priority == 5
    assert "priority: 5000: expected -1000..1000" in refusal(whole("", job="priority: 5000"))


def test_volumes_are_mounts_each_once():
    job = "data_volumes: [data]"
    task = one("data_volumes: [data]\nshared_data_volumes: [share]", CONFIG, job=job)
    found = [(mount.source, mount.target, mount.read_only) for mount in task.environment.mounts]
    assert found == [("/data", "/mnt/data", True), ("shipyard-share", "/share", False)]
    text = refusal(whole("data_volumes: [dat]"), CONFIG)
    assert "data_volumes[0]: 'dat' is no volume\n  did you mean 'data'?" in text
    assert "config.yaml says what it is" in refusal(whole("data_volumes: [a]"))


def test_containers_are_as_options_say():
    task = one(
        "shm_size: 256m\n"
        "additional_docker_run_options: ['--cpus=4', '-m 2g', --net=host, '-v', '/a:/b:ro', "
        "'-e A=1', -w /w, --privileged]"
    )
    container, resources = task.environment, task.resources
    assert (resources.cpus, resources.memory, resources.shm) == (4, 2**31, 2**28)
    assert (container.network, container.workdir, task.env["A"]) == ("host", "/w", "1")
    assert container.mounts[0].read_only
    reading = read(whole("additional_docker_run_options: [--privileged, --name=x]"))
    assert any("--privileged is without effect here" in note for note in reading.notes)
    assert "expected an amount of memory" in refusal(whole("shm_size: lots"))


def test_users_and_working_directories():
    job = "user_identity: {specific_user: {uid: 5, gid: 6}}\ndefault_working_dir: container"
    container = one("", job=job).environment
    assert (container.user, container.workdir) == ("5:6", "")
    text = refusal(whole("", job="user_identity: {specific_user: {uid: 5}}"))
    assert "specific_user: expected uid and gid" in text


STORED = (
    "input_data:\n"
    "  azure_storage:\n"
    "  - storage_account_settings: s\n"
    "    remote_path: box/in/x\n"
    "    include: ['in/x/*.csv', '*.txt']\n"
    "    EXTRA\n"
)


def test_blobs_are_inputs_below_their_own_names():
    (given,) = one(STORED.replace("EXTRA", "local_path: $AZ_BATCH_TASK_WORKING_DIR/d")).inputs
    assert (given.source, given.to) == ("az://box/in/x", "d/in/x")
    assert given.include == ("*.csv", "*.txt")
    stripped = STORED.replace("EXTRA", "blobxfer_extra_options: --strip-components 2")
    assert one(stripped).inputs[0].to == "."
    reading = read(whole(STORED.replace("EXTRA", "local_path: /mnt/x")))
    assert "is outside of the task's directory" in reading.refusals[0]
    reading = read(whole(STORED.replace("EXTRA", "is_file_share: true")))
    assert "file shares of Azure are not reached" in reading.refusals[0]


@pytest.mark.parametrize(
    ("condition", "when"),
    [
        ("", "always"),
        ("condition: taskcompletion", "always"),
        ("condition: taskfailure", "failure"),
        ("condition: tasksuccess", "success"),
    ],
)
def test_outputs_are_kept_by_their_condition(condition, when):
    task = one(
        "output_data:\n"
        "  azure_storage:\n"
        "  - storage_account_settings: s\n"
        "    remote_path: box/out\n"
        "    local_path: $AZ_BATCH_TASK_WORKING_DIR\n"
        "    include: ['*.bin']\n"
        "    exclude: ['tmp*']\n"
        f"    {condition}\n"
    )
    (output,) = task.outputs
    assert (output.path, output.to, output.when) == ("*", "az://box/out", when)
    assert (output.include, output.exclude) == (("*.bin",), ("tmp*",))


@pytest.mark.parametrize("local", ["$AZ_BATCH_TASK_WORKING_DIR/sub", "wd/sub", "sub"])
def test_names_of_what_is_kept_start_from_the_local_path(local, tmp_path):
    if local == "wd/sub":
        local = "$AZ_BATCH_TASK_DIR/wd/sub"
    (output,) = one(
        "output_data:\n"
        "  azure_storage:\n"
        f"  - {{storage_account_settings: s, remote_path: box/out, local_path: {local}}}\n"
    ).outputs
    assert (output.path, output.root) == ("sub", "sub")


def test_two_storage_accounts_in_one_job_are_refused():
    text = whole(STORED.replace("EXTRA", "") + "  - other\n").replace(
        "  - other", "  - {storage_account_settings: t, remote_path: box}"
    )
    assert "it uses the storage accounts s, t" in read(text).refusals[0]


def test_what_comes_from_another_task_makes_it_needed():
    text = whole("id: first") + (
        "  - id: second\n"
        "    docker_image: x\n"
        "    input_data:\n"
        "      azure_batch:\n"
        "      - {job_id: a, task_id: first, include: ['wd/*.bin'], destination: d}\n"
    )
    found = tasks_of(text)
    assert [*found["second"].needs] == ["first"]
    (given,), (kept,) = found["second"].inputs, found["first"].outputs
    assert (given.source, given.to, given.include) == (kept.to, "d", ("*.bin",))
    assert "'firs' is no task of this job\n  did you mean" in refusal(
        text.replace("task_id: first", "task_id: firs")
    )
    (told,) = read(text.replace("job_id: a", "job_id: other")).refusals
    assert "files of the job 'other' are not taken" in told


MULTI = (
    "command: python x.py\n"
    "multi_instance:\n"
    "  num_instances: INSTANCES\n"
    "  coordination_command: start\n"
    "  pre_execution_command: . ./vars\n"
    "  mpi: {runtime: openmpi, executable_path: /Opt/mpirun, processes_per_node: nproc}\n"
)


def test_a_multi_instance_task_of_one_instance_is_run_and_of_more_is_refused():
    command = one(MULTI.replace("INSTANCES", "1")).command
    assert command == (
        *("/bin/bash", "-c"),
        "(start) & . ./vars && /Opt/mpirun --allow-run-as-root -np $(nproc) python x.py",
    )
    text = MULTI.replace("INSTANCES", "pool_specification_vm_count_dedicated")
    (told,) = read(whole(text), POOL).refusals
    assert "pool_specification_vm_count_dedicated (2) machines are needed, and this is one" in told
    assert "num_instances is 'many'" in refusal(whole(MULTI.replace("INSTANCES", "many")))


def test_a_programs_own_number_of_processes_is_left_to_it():
    mpi = "{runtime: openmpi, executable_path: $mpirun, options: [-np $np, --hostfile $hosts]}"
    text = f"command: x\nmulti_instance: {{num_instances: 1, mpi: {mpi}}}"
    line = "$mpirun --allow-run-as-root -np $np --hostfile $hosts x"
    assert one(text).command == ("/bin/bash", "-c", line)


def test_variables_of_azure_batch_that_are_not_set_are_said():
    text = (
        "environment_variables: {A: $AZ_BATCH_NODE_STARTUP_DIR/x}\ncommand: echo $AZ_BATCH_TASK_ID"
    )
    notes = [note for note in read(whole(text)).notes if "is not set here" in note]
    assert len(notes) == 1
    assert "environment_variables.A: AZ_BATCH_NODE_STARTUP_DIR is not set here" in notes[0]


def test_what_has_no_effect_is_said_once_with_its_reason():
    job = "auto_complete: true\nrecurrence: {schedule: {recurrence_interval: '00:05:00'}}"
    text = whole("ports: ['80:80']", job=job) + "  - {docker_image: y, ports: ['81:81']}\n"
    notes = [note for note in read(text).notes if note.startswith("job_specifications: ")]
    assert notes == [
        "job_specifications: auto_complete: without effect here, and kept: a run ends when its "
        "tasks have ended",
        "job_specifications: recurrence: without effect here, and kept: the job is run once, now",
        "job_specifications: tasks[].ports: without effect here, and kept: Tarmac names its "
        "containers itself and gives them no ports",
    ]


def test_all_that_keeps_a_file_from_being_run_here_is_said(tmp_path):
    tasks = "".join(
        f"  - {{docker_image: x, task_factory: {{custom: {{module: {module}}}}}}}\n"
        for module in ("first", "second")
    )
    path = tmp_path / "jobs.yaml"
    path.write_text(f"job_specifications:\n- id: a\n  tasks:\n{tasks}")
    with pytest.raises(RequestError, match=r"cannot be run here: .*jobs\.yaml:4:") as caught:
        read_the_job(path, environment={})
    assert "jobs.yaml:5:" in caught.value.hint


def test_a_configuration_without_jobs_says_what_to_give():
    assert "jobs.yaml:1:1: job_specifications is missing" in refusal(POOL)
    assert "tarmac run config.yaml pool.yaml jobs.yaml" in refusal(POOL)
    assert "tasks is missing or empty" in refusal("job_specifications: [{id: a}]")
    assert "missing or empty" not in refusal("job_specifications: {id: a}")


def files(folder: Path, **texts: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder


def test_a_folder_or_a_jobs_file_finds_the_others_beside_it(tmp_path):
    config = files(tmp_path / "recipe" / "config", jobs=whole(""), pool=POOL)
    for path in (tmp_path / "recipe", config, config / "jobs.yaml"):
        ((reading, base),) = read_paths([path])
        assert reading.jobs[0].tasks[0].resources.gpus == 2
        assert base == config.resolve()


def test_files_that_are_given_are_taken_instead_of_those_beside(tmp_path):
    config = files(tmp_path, jobs=whole(""), pool=POOL)
    other = files(tmp_path / "other", pool=POOL.replace("STANDARD_NC12", "STANDARD_NC24"))
    ((reading, _),) = read_paths([other / "pool.yaml", config / "jobs.yaml"])
    assert reading.jobs[0].tasks[0].resources.gpus == 4


def test_several_jobs_files_are_each_read_with_the_rest(tmp_path):
    config = files(tmp_path, **{"jobs-a": whole(""), "jobs-b": whole(""), "pool": POOL})
    found = read_paths([config / "jobs-b.yaml", config / "jobs-a.yaml"])
    assert [reading.jobs[0].tasks[0].resources.gpus for reading, _ in found] == [2, 2]
    with pytest.raises(RequestError, match="2 jobs files, and their order is unknown"):
        read_paths([config])


def test_a_folder_without_a_jobs_file_says_so(tmp_path):
    with pytest.raises(RequestError, match=r"no jobs file is there: jobs.yaml"):
        read_paths([tmp_path])


def test_files_are_listed_where_the_environment_names_an_account(tmp_path, monkeypatch):
    from tarmac.formats import shipyard

    text = whole(
        "task_factory:\n"
        "  file: {azure_storage: {storage_account_settings: s, remote_path: box/in}}\n"
        "command: echo {file_name}"
    )
    files(tmp_path, jobs=text)
    blobs = ["az://box/in/a", "az://box/in/b"]
    monkeypatch.setattr(shipyard, "list_objects", lambda uri, environment: blobs)
    ((reading, _),) = read_paths([tmp_path])
    assert "AZURE_STORAGE_ACCOUNT_NAME" in reading.refusals[0]
    environment = {"AZURE_STORAGE_ACCOUNT_NAME": "me"}
    ((reading, _),) = read_paths([tmp_path], environment=environment)
    assert [task.command for task in reading.jobs[0].tasks] == [("echo", "a"), ("echo", "b")]


def test_a_store_that_does_not_answer_is_a_refusal(tmp_path):
    text = whole(
        "task_factory: {file: {azure_storage: {storage_account_settings: s, remote_path: box}}}"
    )

    def fails(uri):
        raise TarmacError("az://box: no answer")

    reading = read_shipyard([parse_document(text, "jobs.yaml")], list_objects=fails)
    assert "az://box: no answer" in reading.refusals[0]


SAMPLES = Path(__file__).parents[3] / "shared" / "samples" / "batch-shipyard"


@pytest.mark.skipif(not SAMPLES.exists(), reason="the public samples are not beside the repository")
@pytest.mark.parametrize(
    ("path", "image", "gpus"),
    [
        ("2.x/Chainer-GPU", "chainer/chainer", 1),
        ("3.x/Chainer-GPU", "chainer/chainer", 1),
        ("3.x/PyTorch-GPU", "pytorch/pytorch", 1),
        ("3.x/BLAST-CPU/config/jobs-split.yaml", "python:3-alpine", 0),
        ("3.x/BLAST-CPU/config/jobs-blast.yaml", "quay.io/biocontainers/blast", 0),
    ],
)
def test_published_recipes_are_read(path, image, gpus):
    ((reading, _),) = read_paths([SAMPLES / path])
    task = next(plan_tasks(reading.jobs[0], Path()))
    assert task.environment.image.startswith(image)
    assert task.resources.gpus == gpus


def test_what_a_nodes_tasks_share_is_below_a_tasks_own_directory():
    config = CONFIG.replace("container_path: /share", "container_path: $AZ_BATCH_NODE_SHARED_DIR/f")
    local = STORED.replace("EXTRA", "local_path: $AZ_BATCH_NODE_SHARED_DIR/data")
    task = one(local + "shared_data_volumes: [share]", config)
    assert task.inputs[0].to == "node-shared/data/in/x"
    assert task.environment.mounts[0].target == "/tarmac/node-shared/f"
    assert task.env["AZ_BATCH_NODE_SHARED_DIR"] == "/tarmac/node-shared"
    assert "AZ_BATCH_NODE_SHARED_DIR" not in one("command: x").env
    notes = read(whole("command: ls $AZ_BATCH_NODE_SHARED_DIR")).notes
    assert any("is a directory of each task's own" in note for note in notes)


# Azure/batch-shipyard at 0ad7c3b, config_templates: names of before 3.0.
OLD = """{
  "global_resources": {"docker_volumes": {"shared_data_volumes": {
    "gluster": {"volume_driver": "glusterfs", "container_path": "$AZ_BATCH_NODE_SHARED_DIR/gfs"}}}},
  "pool_specification": {
    "id": "p", "vm_size": "STANDARD_D2_V2", "vm_count": {"dedicated": 4},
    "vm_configuration": {"custom_image": {"image_uris": ["https://x"], "node_agent": "a"}},
    "input_data": {"azure_storage": [{"storage_account_settings": "s", "container": "box",
      "destination": "$AZ_BATCH_NODE_SHARED_DIR/x"}]},
    "additional_node_prep_commands": []},
  "job_specifications": [{"id": "a", "tasks": [{
    "image": "busybox", "gpu": false, "command": "x {0}{1}",
    "shared_data_volumes": ["gluster"],
    "resource_files": [{"file_path": "a", "blob_source": "https://x/y", "file_mode": ""}],
    "input_data": {"azure_storage": [{"storage_account_settings": "s", "container": "box",
      "destination": "$AZ_BATCH_NODE_SHARED_DIR/in"}]},
    "output_data": {"azure_storage": [{"storage_account_settings": "s", "container": "out",
      "source": "$AZ_BATCH_TASK_WORKING_DIR/made"}]},
    "task_factory": {"parametric_sweep": {"permutations": {"iterable": "ABC", "length": 2}}}
  }]}]
}"""


def test_names_of_before_3_0_are_read():
    reading = read_shipyard([parse_document(OLD, "jobs.json")])
    (job,) = reading.jobs
    assert [task.command[1] for task in job.tasks] == ["AB", "AC", "BA", "BC", "CA", "CB"]
    task = job.tasks[0]
    assert task.environment.mounts[0].target == "/tarmac/node-shared/gfs"
    assert [given.to for given in task.inputs] == ["node-shared/in", "a"]
    assert (task.outputs[0].to, task.outputs[0].root) == ("az://out", "made")
    whole_directory = OLD.replace("$AZ_BATCH_TASK_WORKING_DIR/made", "$AZ_BATCH_TASK_DIR")
    (again,) = read_shipyard([parse_document(whole_directory, "jobs.json")]).jobs
    assert again.tasks[0].outputs[0].exclude == ("node-shared/*",)
    assert not reading.refusals


OUT = "output_data: {azure_storage: [{storage_account_settings: s, remote_path: box/out, EXTRA}]}\n"


@pytest.mark.parametrize("local", ["", "local_path: $AZ_BATCH_TASK_DIR, "])
@pytest.mark.parametrize(
    ("patterns", "include", "exclude"),
    [
        ("include: ['wd/*.pt'], exclude: ['wd/tmp*']", ("*.pt",), ("tmp*",)),
        ("include: ['*.pt']", ("*.pt",), ()),
        ("include: ['*/m.pt']", ("*/m.pt", "m.pt"), ()),
        ("include: ['w?/[!a]*']", ("[!a]*",), ()),
        ("include: ['wd/a', stdout.txt]", ("a",), ()),
        ("include: ['wd/{{ x }}']", ("{{ x }}",), ()),
        ("exclude: ['tmp*']", (), ()),
    ],
)
def test_patterns_of_a_tasks_directory_are_of_its_files_here(local, patterns, include, exclude):
    (output,) = one(OUT.replace("EXTRA", local + patterns)).outputs
    assert (output.path, output.include, output.exclude) == ("*", include, exclude)


def test_of_the_logs_alone_nothing_is_kept_but_what_the_run_has():
    reading = read(whole(OUT.replace("EXTRA", "include: [stdout.txt, stderr.txt]")))
    assert reading.jobs[0].tasks[0].outputs == ()
    assert any("the logs are in the run" in note for note in reading.notes)


def test_patterns_cross_directories_as_in_the_original(tmp_path):
    from tarmac.tasks.outputs import keep_outputs

    extra = (
        "local_path: $AZ_BATCH_TASK_WORKING_DIR/a b, include: ['ckpt/*.pt'], exclude: ['*/t.pt']"
    )
    (output,) = one(OUT.replace("EXTRA", extra)).outputs
    work = tmp_path / "work"
    for name in ("ckpt/m.pt", "ckpt/e 1/[x].pt", "ckpt/e 1/t.pt", "m.pt"):
        (work / "a b" / name).parent.mkdir(parents=True, exist_ok=True)
        (work / "a b" / name).write_text(name)
    here = output.model_copy(update={"to": "kept"})
    assert keep_outputs([here], work, tmp_path, succeeded=True) == []
    found = {str(p.relative_to(tmp_path / "kept")) for p in (tmp_path / "kept").rglob("*.pt")}
    assert found == {"ckpt/m.pt", "ckpt/e 1/[x].pt"}


def test_logs_of_another_task_cannot_be_taken():
    text = whole("id: first") + (
        "  - id: second\n    docker_image: x\n    input_data:\n      azure_batch:\n"
        "      - {job_id: a, task_id: first, include: [stdout.txt]}\n"
    )
    (told,) = read(text).refusals
    assert "a task's logs are in the run's directory" in told


WINDOWS = "{publisher: MicrosoftWindowsServer, offer: WindowsServer, sku: x}"


def test_tasks_of_windows_machines_are_refused_but_shown():
    pool = POOL.replace("{publisher: Canonical, offer: UbuntuServer, sku: 18.04-LTS}", WINDOWS)
    reading = read(whole(""), pool)
    assert "its machines have Windows" in reading.refusals[0]
    assert reading.jobs[0].refusals == tuple(reading.refusals)
    assert "Windows pools give tasks none" in refusal(whole("gpus: all"), pool)


@pytest.mark.parametrize(
    ("size", "gpus"),
    [
        ("STANDARD_NC24_PROMO", 4),
        ("standard_nc6s_v2_Promo", 1),
        ("STANDARD_NV12s_v3", 1),
        ("STANDARD_NV48s_v3", 4),
        ("STANDARD_NP10s", 0),
    ],
)
def test_gpus_of_sizes_with_additions_to_their_names(size, gpus):
    assert one("", POOL.replace("STANDARD_NC12", size)).resources.gpus == gpus


def test_a_task_shares_all_cpus_unless_it_is_given_some():
    assert one("").resources.shares_cpus
    resources = one("additional_docker_run_options: [--cpus=4]").resources
    assert (resources.cpus, resources.shares_cpus) == (4, False)


def test_shared_memory_and_limits_are_as_options_say():
    options = "[--ipc=host, --ulimit memlock=-1, '--ulimit=stack=67108864:67108864']"
    container = one(f"additional_docker_run_options: {options}").environment
    assert (container.ipc, container.ulimits) == ("host", ("memlock=-1", "stack=67108864:67108864"))
    text = refusal(whole("additional_docker_run_options: [--ulimit=memlock=-1;x]"))
    assert "--ulimit memlock=-1;x: expected NAME=SOFT" in text
    reading = read(whole("additional_docker_run_options: [--privileged, --ipc=private]"))
    assert any("--privileged is without effect" in note for note in reading.notes)


@pytest.mark.parametrize(
    ("given", "workdir"),
    [("$AZ_BATCH_TASK_WORKING_DIR/sub", "/tarmac/sub"), ("${AZ_BATCH_TASK_DIR}/wd", "/tarmac")],
)
def test_a_working_directory_may_start_from_the_tasks(given, workdir):
    assert one(f"additional_docker_run_options: ['-w {given}']").environment.workdir == workdir


@pytest.mark.parametrize("given", ["$AZ_BATCH_NODE_ROOT_DIR/x", "sub", "$AZ_BATCH_TASK_DIR/../x"])
def test_other_working_directories_are_refused(given):
    text = refusal(whole(f"additional_docker_run_options: ['-w {given}']"))
    assert "expected a path from / or from $AZ_BATCH_TASK_WORKING_DIR" in text


def test_a_task_that_satisfies_what_depends_on_it_though_it_fails_says_so():
    text = "exit_conditions: {default: {exit_options: {dependency_action: satisfy}}}"
    assert one(text).continues
    assert one("", job=text).continues
    blocks = text.replace("satisfy", "block")
    assert not one(blocks, job=text).continues


def test_ids_of_an_own_form_do_not_take_what_it_leaves_out_from_the_configurations():
    common = "batch_shipyard: {storage_account_settings: s, autogenerated_task_id: {prefix: g}}"
    assert [*tasks_of(whole("", job="autogenerated_task_id: {zfill_width: 6}"), common)] == [
        "task-000000"
    ]
    assert [*tasks_of(whole(""), common)] == ["g00000"]


def test_a_pools_old_word_for_its_machines_is_taken():
    text = whole(MULTI.replace("INSTANCES", "pool_specification_vm_count"))
    assert "(2) machines are needed" in read(text, POOL).refusals[0]
    assert not read(text, POOL.replace("dedicated: 2", "dedicated: 1")).refusals


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (whole("id: t\n") + "  - {docker_image: x, depends_on: [t]}\n", "needs an id"),
        (whole("gpus: 1", image="singularity_image: docker://a"), "expected all or disable"),
        (whole("comand: x", image="image: x"), "comand: unknown property"),
    ],
)
def test_what_batch_shipyard_refuses_in_its_code_is_refused(text, message):
    assert message in refusal(text)


def test_instances_on_a_pool_whose_machines_do_not_talk_are_refused():
    text = whole(MULTI.replace("INSTANCES", "1"))
    pool = POOL + "  inter_node_communication_enabled: false\n"
    assert "the pool needs inter_node_communication_enabled: true" in refusal(text, pool)


def test_several_jobs_files_are_to_be_named_one_by_one(tmp_path):
    files(tmp_path, **{"jobs-b": whole(""), "jobs-a": whole("")})
    with pytest.raises(RequestError) as caught:
        read_paths([tmp_path])
    _, words, *names = str(caught.value).splitlines()
    assert words == "Name each by itself, in the order that you need:"
    assert names == [str(tmp_path / "jobs-a.yaml"), str(tmp_path / "jobs-b.yaml")]


@pytest.mark.parametrize(
    ("needs", "place", "circle"),
    [
        (
            ("depends_on: [b]", "depends_on: [a]"),
            "6:5",
            "depends_on: tasks need each other: a -> b",
        ),
        (("gpus: disable", "depends_on: [b]"), "9:5", "depends_on: tasks need each other: b -> b"),
        (
            ("input_data: {azure_batch: [{job_id: j, task_id: b}]}", "depends_on: [a]"),
            "6:5",
            "input_data: tasks need each other: a -> b -> a",
        ),
    ],
)
def test_tasks_that_need_each_other_are_refused_where_they_say_so(needs, place, circle):
    tasks = "".join(
        f"  - id: {name}\n    docker_image: x\n    {need}\n"
        for name, need in zip("ab", needs, strict=True)
    )
    text = f"job_specifications:\n- id: j\n  tasks:\n{tasks}"
    with pytest.raises(RequestError) as caught:
        read_any(parse_document(text, "jobs.yaml"))
    number = "0" if place == "6:5" else "1"
    assert str(caught.value).startswith(
        f"jobs.yaml:{place}: job_specifications[0].tasks[{number}]."
    )
    assert circle in str(caught.value)
