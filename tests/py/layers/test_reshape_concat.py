# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from hugectr import _core


def layer(kind, bottoms, tops):
    return {"type": kind, "bottoms": bottoms, "tops": tops, "attributes": {}}


def history_and_item(*xs):
    joined = np.concatenate(xs, axis=2)
    b, f, width = joined.shape
    return [joined[:, :-1].reshape(b * (f - 1), width), joined[:, -1]]


def all_slots(*xs):
    joined = np.concatenate(xs, axis=2)
    return joined.reshape(-1, joined.shape[2])


WIDTHS = [[8], [3, 5], [8, 16, 8]]


@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.parametrize("slots", [2, 4])
def test_the_last_slot_apart(check_layer, widths, slots):
    shapes = {f"x{i}": (5, slots, width) for i, width in enumerate(widths)}
    check_layer(
        layer("FusedReshapeConcat", list(shapes), ["history", "item"]), shapes, history_and_item
    )


@pytest.mark.parametrize("widths", WIDTHS)
def test_all_slots(check_layer, widths):
    shapes = {f"x{i}": (5, 3, width) for i, width in enumerate(widths)}
    check_layer(layer("FusedReshapeConcatGeneral", list(shapes), ["y"]), shapes, all_slots)


def test_a_bottom_without_gradient(check_layer):
    check_layer(
        layer("FusedReshapeConcat", ["a", "b"], ["history", "item"]),
        {"a": (5, 3, 4), "b": (5, 3, 8)},
        history_and_item,
        no_gradient=["a"],
    )


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([(5, 1, 4)], "2 slots or more"),
        ([(5, 12)], "2 slots or more"),
        ([(5, 3, 4), (5, 2, 4)], r'as many rows and slots as bottom "x0"'),
    ],
)
def test_wrong_shapes_are_named(shapes, message):
    inputs = {f"x{i}": shape for i, shape in enumerate(shapes)}
    with pytest.raises(_core.InvalidArgument, match=message):
        _core.Network(inputs, [layer("FusedReshapeConcat", list(inputs), ["h", "i"])])
