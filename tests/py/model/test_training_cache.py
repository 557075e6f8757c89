# SPDX-License-Identifier: Apache-2.0
"""Scripts of the embedding training cache: sources with keysets, on tables that keep all rows."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from oracle.small_data import generate
from oracle.small_net import DENSE, SIZES

import hugectr
from hugectr import TrainPSType_t

SAMPLES, BATCH = 192, 96
LAYER = hugectr.Layer_t
#: A sample of a Norm file with checksums and one key a slot.
RECORD = np.dtype(
    [
        ("bytes", "<i4"),
        ("label", "<f4"),
        ("dense", "<f4", DENSE),
        ("slots", [("nnz", "<i4"), ("key", "<i8")], len(SIZES)),
        ("sum", "u1"),
    ]
)


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> list[tuple[str, str]]:
    """Three sources and their keysets."""
    made = []
    for i in range(3):
        folder = tmp_path_factory.mktemp(f"pass{i}")
        source, _ = generate(
            folder, "Norm", num_files=1, num_samples_per_file=SAMPLES, eval_num_files=1, seed=i + 1
        )
        keyset = folder / "keys"
        data = Path(source).read_text().split()[1]
        keys = np.fromfile(data, RECORD, offset=4 + 64 + 1)["slots"]["key"]
        np.unique(keys).tofile(keyset)
        made.append((source, str(keyset)))
    return made


def make(files, etc=None, devices=1, repeat=False, workspace=1, kind="Distributed", **reader):
    solver = hugectr.CreateSolver(
        batchsize=BATCH,
        batchsize_eval=BATCH,
        max_eval_batches=1,
        lr=0.05,
        seed=3,
        i64_input_key=True,
        repeat_dataset=repeat,
        device="cpu",
        vvgpu=[list(range(devices))],
    )
    settings = {
        "source": [source for source, _ in files],
        "keyset": [keyset for _, keyset in files],
        "eval_source": files[0][0],
        "check_type": hugectr.Check_t.Sum,
    } | reader
    params = hugectr.DataReaderParams(
        data_reader_type=hugectr.DataReaderType_t.Norm, num_workers=1, **settings
    )
    optimizer = hugectr.CreateOptimizer(hugectr.Optimizer_t.Adam, hugectr.Update_t.Local)
    model = hugectr.Model(solver, params, optimizer, etc)
    sparse = hugectr.DataReaderSparseParam("keys", 1, True, len(SIZES))
    layer = hugectr.DenseLayer
    model.add(hugectr.Input(1, "label", DENSE, "dense", [sparse]))
    table = hugectr.Embedding_t[f"{kind}SlotSparseEmbeddingHash"]
    model.add(hugectr.SparseEmbedding(table, workspace, 4, "sum", "table", "keys"))
    model.add(layer(LAYER.Reshape, ["table"], ["flat"], leading_dim=4 * len(SIZES)))
    model.add(layer(LAYER.Concat, ["flat", "dense"], ["features"]))
    model.add(layer(LAYER.InnerProduct, ["features"], ["logit"], num_output=1))
    model.add(layer(LAYER.BinaryCrossEntropyLoss, ["logit", "label"], ["loss"]))
    model.compile()
    return model


def staged(models=()):
    return hugectr.CreateETC(ps_types=[TrainPSType_t.Staged], sparse_models=list(models))


def rows_of(model) -> tuple[np.ndarray, np.ndarray]:
    bag = model.session.table(0).dump(False)
    return bag["keys"], bag["vectors"]


def same_model(a, b) -> None:
    for one, other in zip(rows_of(a), rows_of(b), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(
        a.session.network.dense_weights(), b.session.network.dense_weights()
    )


@pytest.mark.parametrize("kind", ["Distributed", "Localized"])
def test_fit_trains_source_after_source(files, kind):
    model = make(files, staged(), kind=kind)
    model.fit(num_epochs=2, display=1, eval_interval=0)

    by_hand = make(files[:1], kind=kind)
    for source, _ in files:
        for _ in range(2):
            by_hand.set_source(source, "")
            while by_hand.train():
                pass
    assert model.session.step() == by_hand.session.step() == 2 * 3 * SAMPLES // BATCH
    same_model(model, by_hand)


def test_a_script_of_low_level_calls(files):
    """As v3's sample of the cache: update, set_source, train to the end of the file."""
    model = make(files, staged())
    reader = model.get_data_reader_train()
    cache = model.get_embedding_training_cache()
    iterations = 0
    for source, keyset in files:
        reader.set_source(source)
        cache.update(keyset)
        while True:
            good = model.train()
            if not good:
                break
            iterations += 1
    assert iterations == 3 * SAMPLES // BATCH
    cache.update([keyset for _, keyset in files])
    wanted = set().union(*(np.fromfile(keyset, "<i8") for _, keyset in files))
    assert set(rows_of(model)[0]) == wanted  # nothing is lost


def test_set_source_goes_on_with_other_files(files):
    model = make(files[:1], staged())
    model.fit(num_epochs=1, display=1, eval_interval=0)
    model.set_source(
        source=[source for source, _ in files[1:]],
        keyset=[keyset for _, keyset in files[1:]],
        eval_source=files[2][0],
    )
    model.fit(num_epochs=1, display=1, eval_interval=0)
    whole = make(files, staged())
    whole.fit(num_epochs=1, display=1, eval_interval=0)
    same_model(model, whole)


@pytest.mark.parametrize(
    "call",
    [
        lambda model, source, evaluated: model.set_source(source, evaluated),
        lambda model, source, evaluated: model.set_source(source=source, eval_source=evaluated),
        lambda model, source, evaluated: model.set_source([source], eval_source=evaluated),
        lambda model, source, evaluated: model.set_source(Path(source), Path(evaluated)),
        lambda model, source, evaluated: model.set_source(source, eval_source=Path(evaluated)),
    ],
)
def test_a_source_that_is_set_without_a_keyset_is_trained(files, call):
    model = make(files[:1], staged())
    call(model, files[2][0], files[1][0])
    model.fit(num_epochs=2, display=1, eval_interval=0)
    wanted = make(files[2:], staged())
    wanted.fit(num_epochs=2, display=1, eval_interval=0)
    same_model(model, wanted)


def test_sources_and_keysets_may_be_paths(files):
    model = make(files[:1], staged())
    sources, keysets = ([Path(path) for path in each] for each in zip(*files[1:], strict=True))
    model.set_source(sources, keysets, Path(files[0][0]))
    model.fit(num_epochs=1, display=1, eval_interval=0)
    wanted = make(files[1:], staged())
    wanted.fit(num_epochs=1, display=1, eval_interval=0)
    same_model(model, wanted)
    settings = {"source": sources, "keyset": keysets, "eval_source": Path(files[0][0])}
    given = make(files, staged(), **settings)
    given.fit(num_epochs=1, display=1, eval_interval=0)
    same_model(given, wanted)


def test_another_source_of_evaluations_leaves_the_sources_of_training(files):
    model = make(files[:2], staged())
    model.set_source("", files[2][0])
    model.fit(num_epochs=1, display=1, eval_interval=0)
    wanted = make(files[:2], staged())
    wanted.fit(num_epochs=1, display=1, eval_interval=0)
    same_model(model, wanted)


def test_training_begins_with_the_saved_tables(files, tmp_path):
    first = make(files[:2], staged())
    first.fit(num_epochs=1, display=1, eval_interval=0)
    first.save_params_to_files(str(tmp_path / "m"))
    folder = str(tmp_path / "m0_sparse_0.model")
    second = make(files[1:], staged([folder]), devices=2)
    for one, other in zip(rows_of(first), rows_of(second), strict=True):
        np.testing.assert_array_equal(one, other)
    second.load_dense_weights(str(tmp_path / "m_dense_0.model"))
    second.fit(num_epochs=1, display=1, eval_interval=0)
    assert set(np.fromfile(files[2][1], "<i8")) < set(rows_of(second)[0])
    begun = make(files, staged([str(tmp_path / "not there")]))
    assert len(rows_of(begun)[0]) == 0


def test_get_incremental_model_has_what_a_pass_touched(files):
    model = make(files, staged())
    ((keys, _),) = model.get_incremental_model()
    assert len(keys) == 0
    for source, keyset in files[:2]:
        model.get_data_reader_train().set_source(source)
        model.get_embedding_training_cache().update(keyset)
        while model.train():
            pass
        ((keys, vectors),) = model.get_incremental_model()
        assert keys.tolist() == np.fromfile(keyset, "<i8").tolist()
        assert vectors.shape == (len(keys), 4)


def test_the_budget_of_a_pass_does_not_bound_the_table(files):
    budgets = [make(files[:1], etc).table_stats()[0]["max_rows"] for etc in (None, staged())]
    assert budgets == [2**20 // (4 * 4), 0]


def test_snapshots_are_not_written(files, tmp_path):
    model = make(files, staged())
    model.fit(
        num_epochs=1, display=1, eval_interval=0, snapshot=1, snapshot_prefix=str(tmp_path / "s")
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "cache",
    [
        lambda folder: hugectr.CreateETC([TrainPSType_t.Staged], [folder]),
        lambda folder: hugectr.CreateETC(use_host_memory_ps=True, sparse_models=[folder]),
        lambda folder: hugectr.CreateMOS(use_host_memory_ps=True, sparse_models=[folder]),
        lambda folder: hugectr.CreateMOS(True, [folder], dest_sparse_models=[folder]),
    ],
    ids=["CreateETC", "CreateETC of 3.2.1", "CreateMOS of 3.2", "CreateMOS of 3.1"],
)
def test_the_next_training_goes_on_with_the_tables_of_the_last(files, tmp_path, cache):
    """v3 updates ``sparse_models`` when parameters are saved, and scripts begin with them again."""
    folder = str(tmp_path / "table")
    model = make(files, cache(folder))
    model.fit(num_epochs=1, display=1, eval_interval=0)
    assert not Path(folder).exists()
    model.save_params_to_files(str(tmp_path / "m"))
    names = ("key", "emb_vector")
    wanted = [(tmp_path / "m0_sparse_0.model" / name).read_bytes() for name in names]
    assert [(Path(folder) / name).read_bytes() for name in names] == wanted
    again = make(files, cache(folder))
    for one, other in zip(rows_of(again), rows_of(model), strict=True):
        np.testing.assert_array_equal(one, other)
    again.get_model_oversubscriber().update(files[0][1])


def test_a_mos_of_both_forms_is_refused():
    with pytest.raises(hugectr.InvalidArgument, match="dest_sparse_models say which"):
        hugectr.CreateMOS(dest_sparse_models=["a"], sparse_models=["b"])


def test_cached_tables_are_described():
    config = hugectr.CreateHMemCache(num_blocks=2, target_hit_rate=0.4, max_num_evict=0)
    etc = hugectr.CreateETC(
        ps_types=[TrainPSType_t.Staged, TrainPSType_t.Cached],
        sparse_models=["a", "b"],
        local_paths=["/tmp"],
        hmem_cache_configs=[config],
    )
    assert etc.is_used
    assert not hugectr.CreateETC([]).is_used


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: hugectr.CreateHMemCache(0, 0.5, 0), "num_blocks"),
        (lambda: hugectr.CreateHMemCache(1, 1.5, 0), "target_hit_rate"),
        (lambda: hugectr.CreateETC(["Staged"]), "ps_types"),
        (lambda: hugectr.CreateETC([TrainPSType_t.Cached]), "local_paths"),
        (lambda: hugectr.CreateETC([TrainPSType_t.Cached], [], ["."]), "hmem_cache_configs"),
        (lambda: hugectr.CreateETC([TrainPSType_t.Cached], [], ["."], [1]), "CreateHMemCache"),
        (lambda: hugectr.CreateETC([], ["a"]), "ps_types"),
    ],
)
def test_a_wrong_cache_is_refused(call, text):
    with pytest.raises(hugectr.InvalidArgument, match=text):
        call()


def test_what_a_model_can_not_do_is_refused(files, tmp_path):
    with pytest.raises(hugectr.InvalidArgument, match="etc_params"):
        make(files)
    with pytest.raises(hugectr.InvalidArgument, match="keyset"):
        make(files, staged(), keyset=files[0][1])
    with pytest.raises(hugectr.InvalidArgument, match="CreateETC: ps_types has 2"):
        make(files, hugectr.CreateETC([TrainPSType_t.Staged] * 2))
    plain = make(files[:1])
    with pytest.raises(hugectr.InvalidArgument, match="CreateETC"):
        plain.get_embedding_training_cache()
    with pytest.raises(hugectr.InvalidArgument, match="no embedding training cache"):
        plain.set_source([files[0][0]], [files[0][1]], "")
    with pytest.raises(hugectr.InvalidArgument, match="repeat_dataset"):
        make(files, staged(), repeat=True).fit(max_iter=2, eval_interval=0)
    with pytest.raises(hugectr.InvalidArgument, match="fit: resume"):
        make(files, staged()).fit(num_epochs=1, resume=True, checkpoint_dir=tmp_path)


def test_keysets_are_read_with_care(files, tmp_path):
    cache = make(files, staged()).get_embedding_training_cache()
    odd = tmp_path / "odd"
    odd.write_bytes(b"12345")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, text in (
        (tmp_path / "none", "can not be read"),
        (odd, "5 bytes, which is no number of keys of 8"),
        (pipe, "is not a file"),
        (tmp_path, "is not a file"),
    ):
        with pytest.raises(hugectr.DataError, match=text):
            cache.update(path)
    for none in ([""], None, 5, [None]):
        with pytest.raises(hugectr.InvalidArgument, match="keyset_file"):
            cache.update(none)
