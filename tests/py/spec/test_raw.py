# SPDX-License-Identifier: Apache-2.0
"""What a Raw reader is told by the arguments and configs of each version."""

import numpy as np
import pytest

import hugectr
from hugectr.config.config_file import read_config

KIND = hugectr.DataReaderType_t
SIZES = [10, 20]


@pytest.fixture
def inputs():
    """One label, one dense feature, two slots of up to two keys."""
    sparse = hugectr.DataReaderSparseParam("keys", 2, False, 2)
    return hugectr.Input(1, "label", 1, "dense", [sparse])


@pytest.mark.parametrize(
    ("kind", "settings", "offsets"),
    [
        (KIND.Raw, {}, []),
        (KIND.Raw, {"add_slot_offsets": True}, [0, 10]),
        (KIND.RawAsync, {}, [0, 10]),
        (KIND.RawAsync, {"add_slot_offsets": False}, []),
    ],
)
def test_slot_offsets(inputs, kind, settings, offsets):
    params = hugectr.DataReaderParams(kind, "a", slot_size_array=SIZES, **settings)
    assert params.to_spec(inputs)["raw"]["slot_offsets"] == offsets


def test_a_config_adds_slot_offsets(config, write_json):
    config["layers"][0] |= {"format": "Raw", "slot_size_array": [50] * 4, "check": "None"}
    parsed = read_config(write_json(config)).layers
    spec = parsed.reader.to_spec(parsed.input)
    assert spec["raw"]["slot_offsets"] == [0, 50, 100, 150]


def test_an_input_of_3_0_adds_slot_offsets():
    sparse = hugectr.DataReaderSparseParam(hugectr.DataReaderSparse_t.Localized, 2, 1, 2)
    made = hugectr.Input(
        1,
        "label",
        1,
        "dense",
        [sparse],
        ["keys"],
        data_reader_type=KIND.Raw,
        source="a",
        slot_size_array=SIZES,
    )
    assert made.reader_params.to_spec(made)["raw"]["slot_offsets"] == [0, 10]
    with pytest.raises(hugectr.InvalidArgument, match="source: found 'a', allowed: only with"):
        hugectr.Input(1, "label", 1, "dense", [sparse], ["keys"], source="a")
    with pytest.raises(TypeError, match="no argument 'sourec'"):
        hugectr.Input(1, "label", 1, "dense", [sparse], ["keys"], sourec="a")


@pytest.mark.parametrize("floats", [False, True])
def test_the_labels_of_a_multi_hot_file_say_what_they_are(tmp_path, inputs, floats):
    words = np.zeros((5, 6), "<u4")
    words[2:, 0] = np.float32(1).view("<u4") if floats else 1
    words.tofile(tmp_path / "a.bin")
    params = hugectr.DataReaderParams(
        KIND.RawAsync,
        str(tmp_path / "a.bin"),
        async_param=hugectr.AsyncParam(multi_hot_reader=True),
    )
    raw = params.to_spec(inputs)["raw"]
    assert (raw["keys"], raw["float_label"], raw["float_dense"]) == ("All", floats, True)


def float_words(tmp_path, inputs, labels, dense, **settings):
    """Whether labels, dense features and how many keys are read as float32, or all."""
    words = np.zeros((5, 6), "<u4")
    words[2:, 0], words[:, 1] = labels, dense
    words.tofile(tmp_path / "a.bin")
    params = hugectr.DataReaderParams(
        KIND.RawAsync, str(tmp_path / "a.bin"), async_param=hugectr.AsyncParam(**settings)
    )
    raw = params.to_spec(inputs)["raw"]
    return raw["float_label"], raw["float_dense"], raw.get("keys")


def test_the_file_says_what_is_float_where_nobody_does(tmp_path, inputs):
    one, numbers = np.float32(1).view("<u4"), np.array([0, 3, 7, 1 << 20, 9], "<u4")
    below_zero = np.array([-1, 3, -2, 0, 5], "<i4").view("<u4")
    floats = np.array([0.39, -1e-3, 0.0, 1e9, 2.0], "<f4").view("<u4")
    newer = {"num_threads": 1, "max_num_requests_per_thread": 72}  # of 23.04, without its defaults
    for settings in ({}, newer):
        assert float_words(tmp_path, inputs, 1, numbers, **settings) == (False, False, None)
        assert float_words(tmp_path, inputs, 1, below_zero, **settings) == (False, False, None)
        assert float_words(tmp_path, inputs, 1, floats, **settings) == (False, True, None)
        assert float_words(tmp_path, inputs, one, floats, **settings) == (True, True, None)
    said = {"is_dense_float": False}
    assert float_words(tmp_path, inputs, one, floats, **said) == (True, False, "All")
    said = {"is_dense_float": True}
    assert float_words(tmp_path, inputs, 1, numbers, **said) == (False, True, "All")
    said |= {"multi_hot_reader": False}
    assert float_words(tmp_path, inputs, 1, numbers, **said) == (False, True, None)


@pytest.mark.parametrize("kind", [KIND.Raw, KIND.RawAsync])
@pytest.mark.parametrize("rows", [1000, 1001])  # as many bytes as some samples have, and not
def test_a_table_in_text_is_called_one(tmp_path, inputs, kind, rows):
    path = tmp_path / "rows.csv"
    path.write_text("label,a,bc\n" + "1,2,345,\n" * rows)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 16 * 16 + (rows % 2)])
    model = hugectr.Model(
        hugectr.CreateSolver(batchsize=8, batchsize_eval=8, device="cpu"),
        hugectr.DataReaderParams(kind, str(path), None, "", hugectr.Check_t.Non),
        hugectr.CreateOptimizer(),
    )
    model.add(inputs)
    table = hugectr.Embedding_t.DistributedSlotSparseEmbeddingHash
    model.add(hugectr.SparseEmbedding(table, 1, 4, "sum", "vectors", "keys"))
    reshape, inner = hugectr.Layer_t.Reshape, hugectr.Layer_t.InnerProduct
    model.add(hugectr.DenseLayer(reshape, ["vectors"], ["flat"], leading_dim=8))
    model.add(hugectr.DenseLayer(inner, ["flat"], ["logit"], num_output=1))
    loss = hugectr.Layer_t.BinaryCrossEntropyLoss
    model.add(hugectr.DenseLayer(loss, ["logit", "label"], ["loss"]))
    with pytest.raises(hugectr.DataError, match=r"rows.csv' is no Raw data.*table in text \(CSV\)"):
        model.compile()
