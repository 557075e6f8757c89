# SPDX-License-Identifier: Apache-2.0
"""Native checkpoints: resuming is exact, saving survives kills and a full disk, damage is named."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from oracle.small_net import SIZES, build, losses

import hugectr
from hugectr import checkpoints
from hugectr.checkpoints.chunks import ChunkFile
from hugectr.checkpoints.manifest import manifest_sum
from hugectr.data import Shuffle
from hugectr.spec.enums import Check_t, DataReaderType_t
from hugectr.tools import DataGenerator, DataGeneratorParams


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Paths of the same samples in Norm and Raw."""
    folder = tmp_path_factory.mktemp("data")
    for kind, name in (("Norm", "list.txt"), ("Raw", "a.bin")):
        DataGenerator(
            DataGeneratorParams(
                DataReaderType_t[kind],
                label_dim=1,
                dense_dim=3,
                num_slot=len(SIZES),
                i64_input_key=True,
                source=str(folder / kind / name),
                eval_source=str(folder / kind / ("eval_" + name)),
                slot_size_array=SIZES,
                num_files=3,
                eval_num_files=1,
                num_samples_per_file=400,
                num_samples=1200,
                eval_num_samples=400,
                float_label_dense=True,
                planted_signal=True,
                seed=3,
            )
        ).generate(progress=False, processes=1)
    return {"Norm": str(folder / "Norm" / "list.txt"), "Raw": str(folder / "Raw" / "a.bin")}


def model_of(data, kind, **settings):
    reader = {"check_type": Check_t.Sum}
    if kind == "Raw":
        reader = {"slot_size_array": SIZES, "float_label_dense": True}
    return build(DataReaderType_t[kind], data[kind], **(reader | settings))


def state(model):
    """Everything a model is, as arrays."""
    snapshot = checkpoints.take(model._state)
    fields = {k: v for k, v in snapshot.fields.items() if k != "files"}
    return fields, snapshot.arrays


def assert_equal_states(a, b):
    assert a[0] == b[0]
    assert a[1].keys() == b[1].keys()
    for name in a[1]:
        np.testing.assert_array_equal(a[1][name], b[1][name], err_msg=name)


@pytest.mark.parametrize("background", [False, True])
@pytest.mark.parametrize("kind", ["Norm", "Raw"])
def test_resume_is_exact(data, tmp_path, kind, background):
    whole = model_of(data, kind, num_workers=8)
    wanted = losses(whole, 60)
    first = model_of(data, kind, num_workers=3)
    losses(first, 25)
    path = first.save(tmp_path, background=background)
    after = losses(first, 5)  # training goes on while the save is under way
    first.wait_for_save()
    assert after == wanted[25:30]
    second = model_of(data, kind, num_workers=1)
    assert second.resume(tmp_path) == 25
    assert losses(second, 35) == wanted[25:]
    assert_equal_states(state(second), state(whole))
    assert checkpoints.verify(path)["step"] == 25


def test_resume_with_a_shuffle_and_into_a_model_that_has_trained(data, tmp_path):
    settings = {"shuffle": Shuffle(seed=2, window=150)}
    whole = model_of(data, "Raw", **settings)
    wanted = losses(whole, 50)
    first = model_of(data, "Raw", **settings)
    losses(first, 20)
    first.save(tmp_path)
    losses(first, 13)  # away from what was saved, and back
    first.resume(tmp_path)
    assert losses(first, 30) == wanted[20:]
    assert_equal_states(state(first), state(whole))


@pytest.mark.parametrize("devices", [2, 3])
def test_onto_another_number_of_devices(data, tmp_path, devices):
    whole = losses(model_of(data, "Raw"), 40)
    first = model_of(data, "Raw")
    losses(first, 20)
    first.save(tmp_path)
    second = model_of(data, "Raw", devices=devices)
    second.resume(tmp_path)
    np.testing.assert_allclose(losses(second, 20), whole[20:], rtol=1e-4)


FIT = """
import sys
from oracle.small_net import SIZES, build
from hugectr.spec.enums import DataReaderType_t
source, folder, steps, repeat = sys.argv[1:5]
model = build(DataReaderType_t.Raw, source, slot_size_array=SIZES,
              float_label_dense=True, repeat=repeat == "repeat")
model.fit(num_epochs=4, max_iter=int(steps), display=0, snapshot=0, checkpoint_dir=folder,
          checkpoint_interval=int(sys.argv[5]), resume=True, keep_last=2)
print("done", model.session.step())
"""


def run_fit(*arguments):
    root = Path(hugectr.__file__).parents[1]
    paths = [str(root), str(root / "tests" / "py"), os.environ.get("PYTHONPATH", "")]
    return subprocess.Popen(
        [sys.executable, "-c", FIT, *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.parametrize("mode", ["repeat", "epochs"])
def test_fit_killed_at_random_moments_ends_where_it_would_have(data, tmp_path, rng, mode):
    steps = 400
    whole = run_fit(data["Raw"], tmp_path / "whole", steps, mode, 1000)
    text, _ = whole.communicate(timeout=120)
    assert whole.returncode == 0, text
    end = int(re.search(r"done (\d+)", text)[1])
    assert end == (400 if mode == "repeat" else 4 * 13)
    folder = tmp_path / "killed"
    interval = 7 if mode == "repeat" else 3
    for _ in range(6):
        process = run_fit(data["Raw"], folder, steps, mode, interval)
        seen = len(checkpoints.published(folder))
        begin = time.monotonic()
        while process.poll() is None and time.monotonic() - begin < 60:
            if len(checkpoints.published(folder)) > seen or list(folder.glob(".saving-*")):
                break
            time.sleep(0.002)
        time.sleep(float(rng.random()) * 0.05)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
        found = checkpoints.latest(folder)
        if found is not None:  # else killed before the first was published
            checkpoints.verify(found)
    last = run_fit(data["Raw"], folder, steps, mode, interval)
    text, _ = last.communicate(timeout=120)
    assert last.returncode == 0, text
    a, b = (checkpoints.latest(tmp_path / name) for name in ("whole", "killed"))
    assert a.name == b.name
    first, second = (json.loads((p / "manifest.json").read_text()) for p in (a, b))
    assert first["files"] == second["files"]  # checksums of all content
    assert first["data_position"] == second["data_position"]
    assert not list(folder.glob(".saving-*"))
    assert len(checkpoints.published(folder)) == 2


def saved(data, tmp_path):
    model = model_of(data, "Raw")
    losses(model, 3)
    return model, model.save(tmp_path / "run")


def test_a_folder_that_can_not_be_written_leaves_the_last_checkpoint(data, tmp_path, monkeypatch):
    model, path = saved(data, tmp_path)
    losses(model, 2)
    real = ChunkFile.put
    written = []

    def full_disk(self, number, values):
        written.append(self.path)
        if len(written) == 4:
            raise OSError(28, "No space left on device", str(self.path))
        real(self, number, values)

    monkeypatch.setattr(ChunkFile, "put", full_disk)
    with pytest.raises(OSError, match="No space left"):
        model.save(tmp_path / "run")
    model.save(tmp_path / "other")  # the fifth file and all after it
    monkeypatch.undo()
    assert checkpoints.latest(tmp_path / "run") == path
    checkpoints.verify(path)
    assert not list((tmp_path / "run").glob(".saving-*"))
    written.clear()


def test_an_error_in_the_background_is_raised_by_the_next_call(data, tmp_path, monkeypatch):
    model = model_of(data, "Raw")
    losses(model, 1)

    def fail(self, number, values):
        raise OSError(30, "Read-only file system", str(self.path))

    monkeypatch.setattr(ChunkFile, "put", fail)
    model.save(tmp_path / "run", background=True)
    with pytest.raises(OSError, match="Read-only"):
        model.wait_for_save()
    model.wait_for_save()  # said once


@pytest.mark.parametrize(
    "part", ["dense.weights", "table0.vector.1-of-1", "table0.key.1-of-1", "manifest.json"]
)
def test_missing_short_and_damaged_files_are_named(data, tmp_path, part):
    model, path = saved(data, tmp_path)
    content = (path / part).read_bytes()
    changed = bytearray(content)
    changed[len(changed) // 2] ^= 0x10
    for damaged in (None, content[:-5], bytes(changed)):
        if damaged is None:
            (path / part).unlink()
        else:
            (path / part).write_bytes(damaged)
        for act in (lambda: checkpoints.verify(path), lambda: model.resume(path)):
            if part == "manifest.json" and damaged is None:
                with pytest.raises((hugectr.DataError, hugectr.InvalidArgument)):
                    act()
                continue
            with pytest.raises(hugectr.DataError, match=re.escape(part)):
                act()
        (path / part).write_bytes(content)
    model.resume(path)


def test_another_model_is_refused_and_unchanged(data, tmp_path):
    _, path = saved(data, tmp_path)
    kind = DataReaderType_t.Raw
    other = build(kind, data["Raw"], slot_size_array=SIZES, float_label_dense=True)
    before = state(other)
    manifest = json.loads((path / "manifest.json").read_text())
    for change, words in (
        ({"seed": 99}, "seed 99"),
        ({"tables": []}, "tables"),
        ({"tables": [manifest["tables"][0] | {"vec_size": 9}]}, "vectors of 9"),
        ({"format": 5}, "format 5"),
    ):
        changed = manifest | change
        changed["crc32"] = manifest_sum(changed)
        (path / "manifest.json").write_text(json.dumps(changed))
        with pytest.raises((hugectr.InvalidArgument, hugectr.DataError), match=words):
            other.resume(path)
    assert_equal_states(state(other), before)
    with pytest.raises(hugectr.InvalidArgument, match="no checkpoint"):
        other.resume(tmp_path / "nowhere")
