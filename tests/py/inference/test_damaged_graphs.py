# SPDX-License-Identifier: Apache-2.0
"""Graph files that are damaged or made up: refused by name, or a session that predicts."""

import itertools
import json
import warnings

import numpy as np
import pytest
from oracle.checkpoint_net import build, train
from oracle.damage import damaged, with_strange_fields

import hugectr
from hugectr.inference import CreateInferenceSession, InferenceParams

STRANGE = [
    None, True, -1, 0, 0.5, 1 << 31, 1 << 40, (1 << 63) - 1, 1 << 64, 10**400, 1e308,
    float("nan"), "", "\0", "..", [], [[]], {},
]  # fmt: skip
REFUSED = (hugectr.DataError, hugectr.InvalidArgument, hugectr.OutOfMemory)
BATCH = 4


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A graph, its weights, and what they predict of some rows."""
    place = tmp_path_factory.mktemp("graphs")
    model = build("Adam", "Local", norm=True)
    train(model, 2)
    model.graph_to_json(place / "graph.json")
    model.save_params_to_files(f"{place}/m")
    return place


def _asked(file, folder):
    """What a session of a graph predicts; None when there is none."""
    files = [f"{folder}/m{table}_sparse_0.model" for table in range(2)]
    told = InferenceParams("m", BATCH, 0.9, f"{folder}/m_dense_0.model", files, 0, False, 0.5, True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            session = CreateInferenceSession(file, told)
        except REFUSED:
            return None
    rng = np.random.default_rng(1)
    dense = rng.normal(size=(BATCH, 3)).astype(np.float32)
    keys = rng.integers(0, 13, BATCH * 5)
    try:
        found = session.predict(
            dense.reshape(-1).tolist(),
            keys.tolist(),
            [*range(2 * BATCH + 1), *range(2 * BATCH, 5 * BATCH + 1)],
            i64_input_key=True,
        )
    except REFUSED:  # of another number of dense features, for one
        return None
    return np.asarray(found)


def test_fields_of_every_type(folder, tmp_path):
    file, refused = tmp_path / "graph.json", 0
    right = json.loads((folder / "graph.json").read_text())
    wanted = _asked(folder / "graph.json", folder)
    assert wanted.shape == (BATCH,)
    # Every fifth: of each field some, and of each kind some fields.
    for changed in itertools.islice(with_strange_fields(right, STRANGE), 0, None, 5):
        file.write_text(json.dumps(changed))
        found = _asked(file, folder)
        refused += found is None
        assert found is None or found.shape[0] == BATCH
    assert refused > 300


def test_bytes(folder, tmp_path):
    file, right = tmp_path / "graph.json", (folder / "graph.json").read_bytes()
    rng, refused = np.random.default_rng(9), 0
    for _ in range(400):
        file.write_bytes(damaged(rng, right))
        refused += _asked(file, folder) is None
    assert refused > 150


def test_numbers_that_the_core_does_not_count_in_are_named(folder, tmp_path):
    right = json.loads((folder / "graph.json").read_text())
    for number in (1 << 31, 1 << 63, 1 << 64):
        for place in ("dense", "label"):
            changed = json.loads(json.dumps(right))
            changed["layers"][0][place][f"{place}_dim"] = number
            (tmp_path / "graph.json").write_text(json.dumps(changed))
            with pytest.raises(hugectr.InvalidArgument, match=rf"{place}_dim.*{number}"):
                CreateInferenceSession(
                    tmp_path / "graph.json",
                    InferenceParams("m", 4, 0.9, "x", [], 0, False, 0.5, True),
                )
    with pytest.raises(hugectr.InvalidArgument, match="nnz_per_slot"):
        hugectr.DataReaderSparseParam("a", 1 << 31, False, 2)
    kind = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash
    with pytest.raises(
        hugectr.InvalidArgument, match=r"workspace_size_per_gpu_in_mb.*to 1099511627776"
    ):
        hugectr.SparseEmbedding(kind, 1 << 64, 4, "sum", "t", "a")
