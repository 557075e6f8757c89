# SPDX-License-Identifier: Apache-2.0
"""A job of several processes trains what one process trains, from every format."""

import json
import os
import shutil

import numpy as np
import pytest
from oracle.small_data import NAMES, generate
from oracle.small_net import SIZES
from processes import job

SCRIPT = job.TESTS / "processes" / "train_job.py"
STEPS = 100
TOLERANCE = {"SGD": 1e-5, "Adam": 1e-4}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Folder of the same samples in every format: 3 files of 700, evaluation 2 of 300."""
    folder = tmp_path_factory.mktemp("data")
    for kind in NAMES:
        generate(folder, kind)
    return folder


def outcome(
    folder, data, engine, rows, kind="Norm", embedding="Distributed", optimizer="SGD", **more
):
    """What each process of a job leaves behind."""
    processes = len(rows)
    settings = {
        "name": f"{processes}",
        "kind": kind,
        "source": str(data / kind / NAMES[kind]),
        "eval_source": str(data / kind / "eval" / NAMES[kind]),
        "sizes": SIZES,
        "vvgpu": rows,
        "embedding": embedding,
        "optimizer": optimizer,
        "steps": STEPS,
    } | more
    file = folder / "settings.json"
    file.write_text(json.dumps(settings))
    if processes == 1:
        engine = "launch"
    status, out, err = job.run(engine, processes, SCRIPT, file)
    assert status == 0, f"{out}\n{err}"
    name = settings["name"]
    return [dict(np.load(folder / f"{name}-{rank}.npz")) for rank in range(processes)]


def together(parts, name):
    """Rows of all processes, sorted by (slot, key)."""
    keys = np.concatenate([part["keys"] for part in parts])
    slots = np.concatenate([part["slots"] for part in parts])
    order = np.lexsort((keys, slots) if slots.size else (keys,))
    return np.concatenate([part[name] for part in parts])[order]


CASES = [
    ("mpi", [[0]] * 2, "Norm", "Distributed", "SGD"),
    ("mpi", [[0, 1]] * 2, "Raw", "Localized", "Adam"),
    ("mpi", [[0]] * 4, "Parquet", "Distributed", "Adam"),
    ("launch", [[0, 1]] * 4, "Norm", "Localized", "SGD"),
    ("launch", [[0], [0, 1]], "Parquet", "Localized", "SGD"),
    ("launch", [[0]] * 4, "Raw", "Distributed", "Adam"),
    ("srun", [[0]] * 3, "Norm", "Distributed", "SGD"),
    ("torchrun", [[0]] * 2, "Norm", "Localized", "Adam"),
]
if os.environ.get("HUGECTR_TEST_ALL"):  # a few minutes
    CASES = [
        (engine, [list(range(devices))] * processes, kind, embedding, optimizer)
        for engine in job.ENGINES
        for processes in (1, 2, 4)
        for devices in (1, 2)
        for kind in NAMES
        for embedding in ("Distributed", "Localized")
        for optimizer in TOLERANCE
        if processes * devices > 1
    ]


@pytest.mark.parametrize(("engine", "rows", "kind", "embedding", "optimizer"), CASES)
def test_processes_train_what_one_does(tmp_path, data, engine, rows, kind, embedding, optimizer):
    one = outcome(tmp_path, data, engine, [[0]], kind, embedding, optimizer)[0]
    name = {"name": "many"}  # beside the one of one process
    parts = outcome(tmp_path, data, engine, rows, kind, embedding, optimizer, **name)
    assert one["losses"].shape == (STEPS,)
    for part in parts:
        np.testing.assert_allclose(part["losses"], one["losses"], rtol=TOLERANCE[optimizer])
        np.testing.assert_allclose(part["metrics"], one["metrics"], rtol=1e-3)
        np.testing.assert_array_equal(part["dense"], parts[0]["dense"])
        assert len(part["keys"]) < len(one["keys"]) or len(rows) == 1
    np.testing.assert_array_equal(together(parts, "keys"), one["keys"])
    if one["slots"].size:
        np.testing.assert_array_equal(together(parts, "slots"), one["slots"])
    vectors = together(parts, "vectors")
    assert np.linalg.norm(vectors - one["vectors"]) <= 1e-4 * np.linalg.norm(one["vectors"])


@pytest.mark.parametrize("kind", NAMES)
def test_an_epoch_is_decoded_once_in_the_whole_job(tmp_path, data, kind):
    """Last partial batch included; and everywhere when that is asked for."""
    epoch = {"kind": kind, "repeat": False, "steps": 1000}
    one = outcome(tmp_path, data, "launch", [[0]], **epoch)[0]
    assert len(one["losses"]) == 22  # 2,100 samples in batches of 96
    assert one["decoded"] == 2100
    for processes in (2, 4):
        devices = [list(range(processes))]
        same = outcome(tmp_path, data, "launch", devices, **epoch)[0]  # in one process
        parts = outcome(tmp_path, data, "launch", [[0]] * processes, **epoch)
        assert sum(int(part["decoded"][0]) for part in parts) == 2100
        for part in parts:
            np.testing.assert_array_equal(part["losses"], same["losses"])
            np.testing.assert_allclose(part["losses"], one["losses"], rtol=1e-5)
    for part in outcome(tmp_path, data, "mpi", [[0]] * 2, replicated=True, **epoch):
        assert part["decoded"] == 2100
        np.testing.assert_allclose(part["losses"], one["losses"], rtol=1e-5)


def test_damage_is_told_once_with_file_and_place(tmp_path, data):
    """One process finds it; the job ends as one process would."""
    copy = tmp_path / "data"
    shutil.copytree(data, copy)
    files = sorted((copy / "Norm").rglob("*.data"))
    lists = sorted((copy / "Norm").rglob("*.txt"))
    for file in lists:
        file.write_text(file.read_text().replace(str(data), str(copy)))
    broken = next(f for f in files if "eval" not in f.parts)
    content = bytearray(broken.read_bytes())
    content[len(content) // 2] ^= 0xFF
    broken.write_bytes(content)
    with pytest.raises(AssertionError, match="gen_0") as caught:
        outcome(tmp_path, copy, "launch", [[0]] * 3, repeat=False, steps=1000)
    text = str(caught.value)
    assert text.count(broken.name) == 1, text
    assert "byte" in text
