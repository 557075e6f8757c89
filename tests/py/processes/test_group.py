# SPDX-License-Identifier: Apache-2.0
"""Process groups: what they exchange, and how processes learn of each other."""

import pytest
from processes import job

from hugectr.base.errors import CommError
from hugectr.processes.deadline import Deadline
from hugectr.processes.environment import first_host, place_of, started_by_mpi
from hugectr.processes.rendezvous import find_each_other
from hugectr.processes.solo import SoloGroup


@pytest.mark.parametrize("engine", job.ENGINES)
@pytest.mark.parametrize("size", [2, 4])
def test_everything_a_group_can_do(engine, size):
    status, out, err = job.run(engine, size, job.TESTS / "processes" / "group_job.py")
    assert status == 0, err
    for rank in range(size):
        assert out.count(f"process {rank} of {size}: all right") == 1, out


@pytest.mark.parametrize("engine", job.ENGINES)
def test_questions_do_not_keep_python_from_the_threads_that_need_it(engine):
    script = job.TESTS / "processes" / "waiting_job.py"
    status, out, err = job.run(engine, 2, script, hangs_after=60)
    assert status == 0, err
    for rank in range(2):
        assert f"process {rank} is done" in out


@pytest.mark.parametrize("engine", job.ENGINES)
def test_who_is_missed_by_all_is_named(engine):
    status, out, err = job.run(engine, 3, job.TESTS / "processes" / "ahead_job.py")
    assert status != 0
    assert "process 1 did not take part in an exchange within 2 s" in f"{err} {out}"
    assert "process 1, 2" not in f"{err} {out}"


def test_a_group_of_one():
    group = SoloGroup()
    assert group.all_gather(b"abc") == [b"abc"]
    assert group.exchange([memoryview(b"xy")]) == [bytearray(b"xy")]
    group.barrier()
    other = group.duplicate("other")
    group.abort("enough")
    group.abort("later")
    with pytest.raises(CommError, match="enough"):
        group.barrier()
    other.barrier()


def test_processes_can_meet_through_a_file(tmp_path):
    status, out, err = job.run(
        "launch",
        3,
        job.TESTS / "processes" / "group_job.py",
        HUGECTR_RENDEZVOUS_FILE=str(tmp_path / "address"),
    )
    assert status == 0, err
    assert out.count("all right") == 3
    assert list(tmp_path.iterdir()) == []


SECRET = {"HUGECTR_JOB_SECRET": "0123456789abcdef" * 2}
TORCHRUN = SECRET | {
    "RANK": "3",
    "WORLD_SIZE": "8",
    "LOCAL_RANK": "1",
    "MASTER_ADDR": "n1",
    "MASTER_PORT": "29500",
    "TORCHELASTIC_RUN_ID": "job7",
}
SLURM = SECRET | {
    "SLURM_PROCID": "5",
    "SLURM_STEP_NUM_TASKS": "6",
    "SLURM_LOCALID": "2",
    "SLURM_STEP_NODELIST": "gpu[07-09,12],cpu1",
    "SLURM_JOB_ID": "99",
    "SLURM_STEP_ID": "0",
}


def test_places_by_torchrun_and_slurm():
    place = place_of(TORCHRUN)
    assert (place.rank, place.size, place.local_rank) == (3, 8, 1)
    assert place.address == ("n1", 29501)  # torchrun listens at 29500 itself
    assert place.secret == b"0123456789abcdef" * 2
    assert "0123456789abcdef" not in repr(place)
    place = place_of(SLURM)
    assert (place.rank, place.size, place.local_rank) == (5, 6, 2)
    assert place.address == ("gpu07", 29517)
    assert place_of(SLURM | {"MASTER_PORT": "4000"}).address == ("gpu07", 4000)
    place = place_of(SLURM | {"HUGECTR_RENDEZVOUS_FILE": "/x/y"})
    assert (place.address, place.file) == (("", 0), "/x/y")


def test_alone():
    assert place_of({}) is None
    assert place_of(TORCHRUN | {"WORLD_SIZE": "1", "RANK": "0"}) is None
    # In a batch script of SLURM, outside a step.
    assert place_of({"SLURM_PROCID": "0", "SLURM_NTASKS": "6", "SLURM_LOCALID": "0"}) is None
    assert not started_by_mpi({"OMPI_COMM_WORLD_SIZE": "1"})
    assert started_by_mpi({"OMPI_COMM_WORLD_SIZE": "2"})
    assert started_by_mpi({"PMI_SIZE": "4"})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"MASTER_ADDR": ""}, "MASTER_ADDR is not set: start the processes with"),
        ({"MASTER_PORT": "x"}, "MASTER_PORT: found 'x', allowed: a number"),
        ({"RANK": "8"}, "rank 8 of 8"),
    ],
)
def test_wrong_variables(change, message):
    with pytest.raises(CommError, match=message):
        place_of(TORCHRUN | change)


@pytest.mark.parametrize("rank", [0, 1])
def test_a_name_that_no_machine_can_have(rank):
    change = {"RANK": str(rank), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    place = place_of(TORCHRUN | change | {"MASTER_ADDR": "a..b"})
    with pytest.raises(CommError, match="MASTER_ADDR"):
        find_each_other(place, Deadline(5.0))


def test_first_host():
    assert first_host("a") == "a"
    assert first_host("a,b[1-2]") == "a"
    assert first_host("node[3,5-9]") == "node3"
    assert first_host("node-x[003-9]") == "node-x003"
    with pytest.raises(CommError, match="SLURM_STEP_NODELIST"):
        first_host("")


def test_the_launcher_hands_process_0_its_socket(tmp_path):
    """Nobody can take the port between the launcher's choice and the start of process 0."""
    script = tmp_path / "script.py"
    script.write_text(
        "import os, socket\n"
        "handle = os.environ.get('HUGECTR_LISTENER')\n"
        "assert (handle is not None) == (os.environ['RANK'] == '0')\n"
        "if handle:\n"
        "    found = socket.socket(fileno=int(handle)).getsockname()\n"
        "    assert found == ('127.0.0.1', int(os.environ['MASTER_PORT']))\n"
    )
    status, out, err = job.run("launch", 3, script)
    assert status == 0, out + err
