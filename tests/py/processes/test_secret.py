# SPDX-License-Identifier: Apache-2.0
"""The secret of a job: where it may come from, and who may see it."""

import os
import socket
import stat
import threading

import pytest
from processes import job

from hugectr.base.errors import CommError
from hugectr.processes import secret
from hugectr.processes.environment import Place, place_of
from hugectr.processes.rendezvous import _own_address
from hugectr.processes.secret import Hideout, given_secret
from hugectr.processes.sockets import Mesh

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


def listens_at(places):
    """Where the processes of a job listen, each a thread here."""
    meshes = [None, None]

    def meet(rank):
        meshes[rank] = Mesh(places[rank], 20.0)

    threads = [threading.Thread(target=meet, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [mesh._meeting.listener.address[0] for mesh in meshes]
    for mesh in meshes:
        mesh._meeting.listener.close()
    return found


def free_port(host):
    with socket.create_server((host, 0)) as listener:
        return listener.getsockname()[1]


def test_processes_on_one_machine_listen_at_loopback_whatever_the_address_says(tmp_path):
    at = ("192.0.2.77", free_port("127.0.0.1"))  # of nobody
    places = [Place(rank, 2, rank, at, "", True, LONG.encode()) for rank in range(2)]
    assert listens_at(places) == ["127.0.0.1"] * 2
    file = str(tmp_path / "address")
    places = [Place(rank, 2, rank, ("", 0), file, True, LONG.encode()) for rank in range(2)]
    assert listens_at(places) == ["127.0.0.1"] * 2


def test_processes_on_several_machines_listen_at_the_interface_of_the_address(tmp_path):
    try:
        host = _own_address()
    except CommError:
        pytest.skip("this machine has no address but loopback")
    at = (host, free_port(host))
    places = [Place(rank, 2, rank, at, "", False, LONG.encode()) for rank in range(2)]
    assert listens_at(places) == [host, host]
    file = str(tmp_path / "address")
    places = [Place(rank, 2, rank, ("", 0), file, False, LONG.encode()) for rank in range(2)]
    assert listens_at(places) == [host, host]


def test_an_address_of_another_machine_is_told():
    place = Place(0, 2, 0, ("192.0.2.77", 29500), "", False, LONG.encode())
    with pytest.raises(CommError, match="MASTER_ADDR must be an address of the machine"):
        Mesh(place, 1.0)


def test_what_a_dead_job_left_is_not_believed(tmp_path, monkeypatch):
    """The old secret and the old address lie there when process 1 starts first."""
    monkeypatch.setattr(secret.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    file = tmp_path / "address"
    file.write_text(f"127.0.0.1 {free_port('127.0.0.1')}\n")
    Hideout(str(file)).write()
    places = [Place(rank, 2, rank, ("", 0), str(file), True, b"") for rank in range(2)]
    assert listens_at(places) == ["127.0.0.1"] * 2
    assert not file.exists()
    assert not Hideout(str(file)).path.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_an_address_that_somebody_else_wrote_is_not_called(tmp_path):
    file = tmp_path / "address"
    file.write_text("127.0.0.1 1\n")
    os.chown(file, 12345, 12345)
    place = Place(1, 2, 1, ("", 0), str(file), True, LONG.encode())
    with pytest.raises(CommError, match="is no file of yours"):
        Mesh(place, 0.3)


def test_two_sizes_of_a_job_are_told_apart():
    at = ("127.0.0.1", free_port("127.0.0.1"))
    first = Place(0, 2, 0, at, "", True, LONG.encode())
    other = Place(1, 3, 1, at, "", True, LONG.encode())

    def wait():
        with pytest.raises(CommError, match="process 1 did not connect within 3 s"):
            Mesh(first, 3.0)

    thread = threading.Thread(target=wait)
    thread.start()
    with pytest.raises(CommError, match="refused process 1: it was started with another WORLD"):
        Mesh(other, 20.0)
    thread.join()
