# SPDX-License-Identifier: Apache-2.0
"""The same model comes out on any number of devices, threads and delays."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from model.nets import SavedTable, Setup, losses, make_model, read_table

import hugectr
from hugectr.data import MemoryDataset
from hugectr.data.planted import make_planted, write_planted_norm

SLOTS, DENSE, STEPS, D = 5, 3, 100, 8
TYPES = ("DistributedSlotSparseEmbeddingHash", "LocalizedSlotSparseEmbeddingHash")
# Adam magnifies rounding: a gradient that should be zero but is not becomes a whole step.
TOLERANCE = {"SGD": 1e-5, "Adam": 1e-4}
LR = {"SGD": 0.1, "Adam": 0.002}


@cache
def _data() -> MemoryDataset:
    sizes = [30, 200, 7, 50, 400]
    return make_planted(1000, sizes, hotness=(0, 3), dense_dim=DENSE, seed=3).to_memory("keys")


def _run(setup: Setup, folder: Path) -> tuple[npt.NDArray[np.float64], SavedTable]:
    model = make_model(setup)
    curve = losses(model, STEPS)
    prefix = str(folder / f"devices_{setup.devices}")
    model.save_params_to_files(prefix, STEPS)
    return curve, read_table(Path(f"{prefix}0_sparse_{STEPS}.model"), D).sorted()


def _check_all_device_counts(setup: Setup, folder: Path) -> None:
    curve, table = _run(replace(setup, devices=1), folder)
    assert curve[-20:].mean() < curve[:20].mean() - 0.005, "the model does not learn"
    for devices in (2, 4, 8):
        other_curve, other = _run(replace(setup, devices=devices), folder)
        np.testing.assert_allclose(
            other_curve, curve, rtol=TOLERANCE[setup.optimizer], err_msg=f"{devices} devices"
        )
        np.testing.assert_array_equal(other.keys, table.keys)
        if table.slot_ids is not None:
            np.testing.assert_array_equal(other.slot_ids, table.slot_ids)
        distance = np.linalg.norm(other.vectors - table.vectors) / np.linalg.norm(table.vectors)
        assert distance <= 1e-5, f"{devices} devices: tables {distance:.1e}"


def _setup(**changes: object) -> Setup:
    setup = Setup("tower", _data(), _data(), SLOTS, DENSE, d=D, nnz=3, batch=64)
    setup = replace(setup, **changes)  # type: ignore[arg-type]
    return replace(setup, lr=LR[setup.optimizer])


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
@pytest.mark.parametrize("combiner", ["sum", "mean"])
@pytest.mark.parametrize("embedding", TYPES)
def test_embedding_types_and_combiners(
    embedding: str, combiner: str, optimizer: str, tmp_path: Path
) -> None:
    setup = _setup(embedding=embedding, combiner=combiner, optimizer=optimizer)
    _check_all_device_counts(setup, tmp_path)


@pytest.mark.parametrize("exchange", ["pooled", "unique"])
@pytest.mark.parametrize("net", ["tower", "deepfm"])
@pytest.mark.parametrize("embedding", TYPES)
def test_exchanges(embedding: str, net: str, exchange: str, tmp_path: Path) -> None:
    """Few keys, which samples share; deepfm has two tables."""
    data = make_planted(1000, [5, 4, 7, 3, 6], hotness=(0, 3), dense_dim=DENSE, seed=4)
    keys = data.to_memory("keys")
    setup = _setup(
        embedding=embedding, net=net, exchange=exchange, train=keys, test=keys, optimizer="Adam"
    )
    model = make_model(replace(setup, devices=4))
    losses(model, 5)
    for stats in model.table_stats():
        assert (stats["unique_plans"] > 0) == (exchange == "unique")
    _check_all_device_counts(replace(setup, net="tower"), tmp_path)


@pytest.mark.parametrize("update_type", ["Global", "LazyGlobal"])
def test_update_types(update_type: str, tmp_path: Path) -> None:
    _check_all_device_counts(_setup(optimizer="Adam", update_type=update_type), tmp_path)


@pytest.mark.parametrize("net", ["tower", "batch_norm"])
def test_gradients_in_many_buckets(
    net: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Buckets of a parameter each, summed while backward goes on; batch_norm sums there too."""
    monkeypatch.setenv("HUGECTR_BUCKET_BYTES", "1")
    _check_all_device_counts(_setup(net=net, optimizer="Adam", l2=0.5), tmp_path)


def test_regularizer(tmp_path: Path) -> None:
    with_l2 = losses(make_model(_setup(l2=0.5)), 3)
    assert np.all(with_l2 > losses(make_model(_setup()), 3) + 1e-3)
    _check_all_device_counts(_setup(l2=0.5), tmp_path)


@pytest.mark.parametrize("net", ["batch_norm", "dropout", "normalised"])
def test_layers_that_look_at_the_whole_batch(net: str, tmp_path: Path) -> None:
    _check_all_device_counts(_setup(net=net), tmp_path)


def test_int64_keys(tmp_path: Path) -> None:
    _check_all_device_counts(_setup(i64=True), tmp_path)


_PROGRAM = """
import hashlib, json, sys
from pathlib import Path
sys.path[:0] = json.loads(sys.argv[1])
from model.nets import Setup, losses, make_model
folder, train, workers = Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
setup = Setup("dropout", train, train, 5, 3, nnz=3, devices=2, num_workers=workers,
              optimizer="Adam", lr=0.002, update_type="Global")
model = make_model(setup)
curve = losses(model, 60)
for _ in range(5):
    model.eval()
auc = dict(model.get_eval_metrics())["AUC"]
prefix = folder / "run"
model.save_params_to_files(str(prefix), 60)
digest = hashlib.sha256()
for path in sorted(folder.rglob("*")):
    if path.is_file() and path.relative_to(folder).parts[0].startswith("run"):
        digest.update(path.name.encode() + path.read_bytes())
print(json.dumps({"loss": [float(x).hex() for x in curve], "auc": auc,
                  "files": digest.hexdigest()}))
"""


def _train_in_a_process(
    folder: Path, train: str, workers: int, **variables: str
) -> dict[str, object]:
    folder.mkdir()
    # The package this process uses, wherever it was imported from.
    paths = [str(Path(hugectr.__file__).parents[1]), str(Path(__file__).parents[1])]
    arguments = [json.dumps(paths), str(folder), train, str(workers)]
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *arguments],
        env={**os.environ, "HUGECTR_LOG_LEVEL": "3", **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.fixture(scope="module")
def norm_files(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("norm")
    sizes = [30, 200, 7, 50, 400]
    return write_planted_norm(
        folder, 1000, 200, sizes, hotness=(0, 3), dense_dim=DENSE, files=3, seed=4
    ).train


@pytest.fixture(scope="module")
def one_worker(norm_files: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    return _train_in_a_process(tmp_path_factory.mktemp("one") / "a", norm_files, 1)


def test_eight_reader_threads_agree_bit_for_bit(
    norm_files: str, one_worker: dict[str, object], tmp_path: Path
) -> None:
    assert _train_in_a_process(tmp_path / "a", norm_files, 8) == one_worker


@pytest.mark.parametrize("workers", [1, 8])
def test_random_stream_delays_agree_bit_for_bit(
    workers: int, norm_files: str, one_worker: dict[str, object], tmp_path: Path
) -> None:
    delayed = _train_in_a_process(
        tmp_path / "a", norm_files, workers, HUGECTR_STREAM_DELAY_US="200"
    )
    assert delayed == one_worker


def test_unfused_schedule_agrees(
    norm_files: str, one_worker: dict[str, object], tmp_path: Path
) -> None:
    plain = _train_in_a_process(tmp_path / "a", norm_files, 1, HUGECTR_FUSE="0")

    def curve(result: dict[str, object]) -> list[float]:
        texts = result["loss"]
        assert isinstance(texts, list)
        return [float.fromhex(text) for text in texts]

    np.testing.assert_allclose(curve(plain), curve(one_worker), rtol=1e-4)
