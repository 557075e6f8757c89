# SPDX-License-Identifier: Apache-2.0
"""The secret of a job: where it may come from, and who may see it."""

import os
import stat

import pytest
from processes import job

from hugectr.errors import CommError
from hugectr.processes import secret
from hugectr.processes.environment import place_of
from hugectr.processes.secret import Hideout, given_secret

LONG = "0123456789abcdef" * 2
PLAIN = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "n1", "MASTER_PORT": "29500"}
STEP = {
    "SLURM_PROCID": "1",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_LOCALID": "1",
    "SLURM_STEP_NODELIST": "n[1-2]",
    "SLURM_JOB_ID": "17",
    "SLURM_STEP_ID": "0",
}


@pytest.mark.parametrize(
    ("variables", "one_host"),
    [
        (PLAIN, False),
        (PLAIN | {"LOCAL_RANK": "1"}, False),
        (PLAIN | {"LOCAL_WORLD_SIZE": "1"}, False),
        (PLAIN | {"LOCAL_WORLD_SIZE": "2"}, True),
        (PLAIN | {"MASTER_ADDR": "127.0.0.1"}, False),  # says nothing about the others
        (PLAIN | {"TORCHELASTIC_RUN_ID": "none"}, False),
        (STEP, False),
        (STEP | {"SLURM_STEP_NUM_NODES": "1"}, True),
        (STEP | {"SLURM_STEP_TASKS_PER_NODE": "4"}, True),
        (STEP | {"SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_TASKS_PER_NODE": "2(x2)"}, False),
        (STEP | {"SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_TASKS_PER_NODE": "3,1"}, False),
    ],
)
def test_only_a_job_of_one_machine_starts_without_a_secret(variables, one_host):
    place = place_of(variables | {"HUGECTR_JOB_SECRET": LONG})
    assert (place.one_host, place.secret) == (one_host, LONG.encode())
    assert LONG not in f"{place} {place!r}"
    if one_host:
        assert place_of(variables).secret == b""
    else:
        with pytest.raises(CommError, match=r"no secret.*HUGECTR_JOB_SECRET_FILE=FILE"):
            place_of(variables)


@pytest.mark.parametrize("text", ["short", "x" * 31, "x" * 5000, " " * 64])
def test_a_secret_has_a_length(text):
    with pytest.raises(CommError, match=r"HUGECTR_JOB_SECRET: found .* allowed: 32 to 4096"):
        given_secret({"HUGECTR_JOB_SECRET": text})


def private(path, text=LONG + "\n", mode=0o600):
    path.write_text(text)
    path.chmod(mode)
    return {"HUGECTR_JOB_SECRET_FILE": str(path)}


def test_a_secret_in_a_file(tmp_path):
    assert given_secret(private(tmp_path / "a")) == LONG.encode()
    assert given_secret(private(tmp_path / "b", mode=0o400)) == LONG.encode()
    with pytest.raises(CommError, match="both set"):
        given_secret(private(tmp_path / "c") | {"HUGECTR_JOB_SECRET": LONG})


def test_files_that_are_no_secrets(tmp_path):
    for mode in (0o640, 0o604, 0o620, 0o666):
        with pytest.raises(CommError, match=r"is open to others .*chmod 600"):
            given_secret(private(tmp_path / "a", mode=mode))
    with pytest.raises(CommError, match="can not be read: No such file"):
        given_secret({"HUGECTR_JOB_SECRET_FILE": str(tmp_path / "none")})
    with pytest.raises(CommError, match="allowed: 32 to 4096"):
        given_secret(private(tmp_path / "b", "short"))
    with pytest.raises(CommError, match="allowed: 32 to 4096"):
        given_secret(private(tmp_path / "c", "x" * 100_000))
    with pytest.raises(CommError, match="is no file"):
        given_secret({"HUGECTR_JOB_SECRET_FILE": str(tmp_path)})
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(CommError, match="is no file"):
        given_secret({"HUGECTR_JOB_SECRET_FILE": str(tmp_path / "pipe")})


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_files_of_others_are_no_secrets(tmp_path):
    variables = private(tmp_path / "a")
    os.chown(tmp_path / "a", 12345, 12345)
    with pytest.raises(CommError, match="belongs to user 12345"):
        given_secret(variables)


@pytest.fixture
def hideout(tmp_path, monkeypatch):
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(secret.tempfile, "gettempdir", lambda: str(tmp_path))
    return Hideout("localhost:29500")


def test_process_0_hides_a_secret_for_the_others(hideout):
    made = hideout.write()
    assert len(made) == 64
    assert Hideout("localhost:29500").read() == made
    with pytest.raises(CommError, match="No such file"):
        Hideout("localhost:29501").read()
    assert stat.S_IMODE(hideout.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(hideout.path.stat().st_mode) == 0o600
    again = hideout.write()  # what a job that was killed has left is replaced
    assert again != made
    assert hideout.read() == again
    hideout.remove()
    assert list(hideout.folder.iterdir()) == []
    hideout.remove()


def test_a_folder_that_others_have_is_not_used(hideout, tmp_path):
    hideout.write()
    for mode in (0o750, 0o707, 0o777):
        hideout.folder.chmod(mode)
        for use in (hideout.write, hideout.read):
            with pytest.raises(CommError, match="must be yours alone"):
                use()
    hideout.folder.chmod(0o700)
    real = hideout.folder.rename(tmp_path / "elsewhere")
    hideout.folder.symlink_to(real)
    for use in (hideout.write, hideout.read):
        with pytest.raises(CommError, match="can not be used"):
            use()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_folder_of_somebody_else_is_not_used(hideout):
    hideout.folder.mkdir(mode=0o700)
    os.chown(hideout.folder, 12345, 12345)
    with pytest.raises(CommError, match="belongs to user 12345"):
        hideout.write()


def test_a_link_in_place_of_the_secret_is_not_followed(hideout, tmp_path):
    hideout.write()
    hideout.path.unlink()
    (tmp_path / "target").write_text("untouched")
    hideout.path.symlink_to(tmp_path / "target")
    hideout.write()
    assert (tmp_path / "target").read_text() == "untouched"
    assert not hideout.path.is_symlink()


def test_the_runtime_folder_of_the_user_is_preferred(tmp_path, monkeypatch):
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    assert Hideout("a:1").folder == runtime / "hugectr"
    runtime.chmod(0o755)
    assert Hideout("a:1").folder != runtime / "hugectr"


@pytest.mark.parametrize("engine", ["srun", "torchrun", "plain"])
def test_jobs_of_every_launcher_meet_and_leave_nothing_behind(engine, tmp_path):
    runtime = tmp_path / "run"
    runtime.mkdir(mode=0o700)
    script = job.TESTS / "processes" / "group_job.py"
    more = {"HUGECTR_JOB_SECRET": LONG} if engine == "plain" else {}
    status, out, err = job.run(engine, 2, script, XDG_RUNTIME_DIR=str(runtime), **more)
    assert status == 0, err
    assert out.count("all right") == 2
    assert list(runtime.glob("*/*")) == []


def test_plain_variables_without_a_secret_do_not_start():
    script = job.TESTS / "processes" / "group_job.py"
    status, _, err = job.run("plain", 2, script)
    assert status != 0
    assert err.count("this job has no secret") == 2
