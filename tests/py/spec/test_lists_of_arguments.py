# SPDX-License-Identifier: Apache-2.0
"""Arguments that are lists take any sequence or array of the same numbers."""

import array

import numpy as np
import pytest

import hugectr
from hugectr import DenseLayer, Layer_t

WAYS = {
    "tuple": tuple,
    "numpy": np.array,
    "int32": lambda values: np.array(values, np.int32),
    "items": lambda values: [np.array(one) if np.ndim(one) else np.int64(one) for one in values],
}
LAYERS = [
    (Layer_t.Slice, "ranges", [[0, 2], [1, 3]], {}),
    (Layer_t.Gather, "indices", [0, 2], {}),
    (Layer_t.Reshape, "selected_slots", [0, 2], {"selected": True}),
    (Layer_t.Reshape, "shape", [-1, 2, 3], {}),
    (Layer_t.WeightMultiply, "weight_dims", [3, 4], {}),
    (Layer_t.MultiCrossEntropyLoss, "target_weight_vec", [1, 2], {}),
    (Layer_t.MLP, "num_outputs", [3, 4], {}),
    (Layer_t.Select, "index", [1, 0], {"dim": 1}),
]


def layer(kind, **more):
    tops = ["x", "y"] if kind is Layer_t.Slice else ["x"]
    return DenseLayer(kind, ["a"], tops, **more)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("kind", "name", "values", "more"), LAYERS, ids=str)
def test_lists_of_layers(kind, name, values, more, way):
    given = layer(kind, **{name: WAYS[way](values)}, **more)
    assert given.parameters == layer(kind, **{name: values}, **more).parameters
    assert given.to_spec() == layer(kind, **{name: values}, **more).to_spec()


@pytest.mark.parametrize(("kind", "name", "values", "more"), LAYERS, ids=str)
def test_what_is_no_list_is_named(kind, name, values, more):
    masked = np.ma.masked_array(values, np.ones(np.shape(values), bool))
    for bad in (masked, np.array(1), 1.5, "ab", {1: 2}, np.array([0.5, 1.5]), [[np.nan]]):
        if name == "target_weight_vec" and getattr(bad, "shape", ()) == (2,) and bad is not masked:
            continue  # halves are weights
        with pytest.raises(hugectr.InvalidArgument, match=name):
            layer(kind, **{name: bad}, **more)


@pytest.mark.parametrize("name", ["num_output", "use_bias", "selected", "use_regularizer"])
def test_an_array_where_one_value_is_meant_is_named(name):
    kind = {
        "num_output": Layer_t.InnerProduct,
        "use_bias": Layer_t.MLP,
        "selected": Layer_t.Reshape,
        "use_regularizer": Layer_t.BinaryCrossEntropyLoss,
    }[name]
    more = {"num_outputs": [3]} if kind is Layer_t.MLP else {}
    with pytest.raises(hugectr.InvalidArgument, match=name):
        layer(kind, **{name: np.array([1, 2])}, **more)


@pytest.mark.parametrize(
    "values", [np.array([1, 2]), (1, 2), range(1, 3), array.array("i", [1, 2])]
)
def test_keys_of_slots(values):
    param = hugectr.DataReaderSparseParam("a", values, False, 2)
    assert param.nnz_per_slot == [1, 2]
    assert all(type(one) is int for one in param.nnz_per_slot)
    with pytest.raises(hugectr.InvalidArgument, match=r"nnz_per_slot: .*slot_num = 3"):
        hugectr.DataReaderSparseParam("a", values, False, 3)


@pytest.mark.parametrize(
    "values", [np.array([[0, 1]]), [range(2)], ([0, 1],), [np.arange(2)], (np.int64([0, 1]),)]
)
def test_devices(values):
    # On the CPU, where a device is a thread.
    solver = hugectr.CreateSolver(batchsize=4, batchsize_eval=4, vvgpu=values, device="cpu")
    assert solver.vvgpu == [[0, 1]]


@pytest.mark.parametrize(
    "values", [range(2), np.arange(2), np.array([[0.5]]), np.array(3), "ab", []]
)
def test_devices_that_are_none(values):
    with pytest.raises(hugectr.InvalidArgument, match="vvgpu"):
        hugectr.CreateSolver(batchsize=4, batchsize_eval=4, vvgpu=values, device="cpu")


def test_names_and_sizes_of_groups_and_tables():
    group = hugectr.GroupDenseLayer(
        hugectr.GroupLayer_t.GroupFusedInnerProduct,
        np.array(["a"]),
        np.array(["x", "y"]),
        np.array([3, 4]),
    )
    assert [one.parameters["num_output"] for one in group.layers] == [3, 4]
    found = hugectr.Input(
        label_dims=np.array([1, 2]), label_names=["x", "y"], label_weights=np.array([1.0, 0.5])
    )
    assert (found.label_dims, found.label_weights) == ([1, 2], [1.0, 0.5])
    with pytest.raises(hugectr.InvalidArgument, match="slot_size_array"):
        hugectr.DataReaderParams(hugectr.DataReaderType_t.Raw, "a", slot_size_array=None)
