# SPDX-License-Identifier: Apache-2.0
"""What goes into every export, against evaluation; formats are checked in tests/extras/export."""

import numpy as np
import pytest
from oracle.export_models import (
    BATCH,
    EVERY_LAYER,
    OF_BATCH,
    OF_PLACES,
    SIZE,
    SLOTS,
    STEP_MASK,
    TOWER,
    example,
)
from oracle.program import run

from hugectr._core import activations, losses
from hugectr.base.errors import InvalidArgument
from hugectr.export.image import image_of
from hugectr.export.layers import LAYERS
from hugectr.export.onnx_file import _SAME_NAME, OPERATORS
from hugectr.export.program import OPERATIONS
from hugectr.export.tables_beside import write_tables_beside
from hugectr.export.torch_module import EXPRESSIONS
from hugectr.spec.layer_parameters import LAYER_PARAMETERS


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "layers",
    [EVERY_LAYER, OF_BATCH, OF_PLACES, STEP_MASK],
    ids=["every", "of the batch", "of places", "step mask"],
)
def test_every_layer_is_what_evaluation_computes(layers, seed):
    case = example(layers, seed=seed)
    image = image_of(case.model)
    found = run(image.program, {"dense": case.dense, "emb": case.vectors})
    scale = np.abs(case.logit).max()
    np.testing.assert_allclose(found["logit"], case.logit, atol=1e-5 * max(scale, 1))
    np.testing.assert_allclose(found["probability"], case.probability, atol=1e-5)


def test_every_layer_type_there_is_can_be_exported():
    types = {kind.name for kind in LAYER_PARAMETERS} - set(losses())
    assert types == set(LAYERS)
    assert set(activations()) <= set(LAYERS)
    assert {kind for kind, *_ in EVERY_LAYER + OF_BATCH + OF_PLACES} == set(LAYERS)


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        (
            [
                ("Reshape", ["emb"], ["flat"], {"leading_dim": SLOTS * SIZE}),
                ("Gather", ["flat"], ["few"], {"indices": [*range(BATCH // 2)]}),
                ("Reshape", ["few"], ["relu"], {"leading_dim": SLOTS * SIZE // 2}),
            ],
            f"'few' of type Gather gives {BATCH // 2} rows, .* a batch of {BATCH}",
        ),
        (
            [
                ("Reshape", ["emb"], ["rows"], {"leading_dim": SIZE}),
                ("MultiCross", ["rows"], ["crossed"], {"num_layers": 1}),
                ("Reshape", ["crossed"], ["relu"], {"leading_dim": SLOTS * SIZE}),
            ],
            "'crossed' of type MultiCross mixes samples, or takes several rows",
        ),
        (
            [
                ("Reshape", ["emb"], ["rows"], {"leading_dim": 2 * SLOTS * SIZE}),
                ("Reshape", ["rows"], ["relu"], {"leading_dim": SLOTS * SIZE}),
            ],
            "'rows' of type Reshape mixes samples",
        ),
        (
            [
                ("Reshape", ["emb"], ["rows"], {"leading_dim": SIZE}),
                ("Scale", ["rows"], ["more"], {"axis": 1, "factor": 2}),
                ("Reshape", ["more"], ["relu"], {"leading_dim": 2 * SLOTS * SIZE}),
            ],
            "'more' of type Scale mixes samples, or takes several rows",
        ),
    ],
)
def test_what_can_not_be_exported_is_named_with_its_reason(layers, message):
    case = example([*layers, ("InnerProduct", ["relu"], ["logit"], {"num_output": 1})], steps=0)
    with pytest.raises(InvalidArgument, match=message):
        image_of(case.model)


def test_every_operation_has_its_way_into_every_format():
    assert set(OPERATIONS) == set(EXPRESSIONS)
    assert set(OPERATIONS) == set(OPERATORS) | set(_SAME_NAME)


def test_what_the_prediction_does_not_need_is_left_out():
    case = example([*TOWER[:3], ("Tanh", ["dense"], ["unused"], {}), *TOWER[3:]])
    image = image_of(case.model)
    assert "unused" not in image.program.shapes
    assert "label" not in image.program.inputs


@pytest.mark.parametrize("embedding", ["Distributed", "Localized"])
@pytest.mark.parametrize(("most", "combiner"), [(1, "sum"), (3, "sum"), (3, "mean")])
def test_the_reader_of_numpy_gives_the_vectors_of_evaluation(tmp_path, embedding, most, combiner):
    case = example(TOWER, embedding, most, combiner)
    write_tables_beside(tmp_path, image_of(case.model))
    source = (tmp_path / "reader.py").read_text()
    assert [line for line in source.splitlines() if line.startswith(("import", "from"))] == [
        "from __future__ import annotations",
        "import hashlib",
        "import json",
        "import tokenize",
        "import zlib",
        "from pathlib import Path",
        "from typing import Any",
        "import numpy as np",
    ]
    from hugectr.export.numpy_reader import Tables

    found = Tables(tmp_path).vectors({"keys": case.keys})
    assert found["emb"].dtype == np.float32
    np.testing.assert_allclose(found["emb"], case.vectors, atol=1e-6)
    assert (found["emb"] != 0).any()


def test_a_table_without_rows_reads_as_zeros(tmp_path):
    case = example(TOWER, steps=1)
    case.model.session.table(0).reset()
    write_tables_beside(tmp_path, image_of(case.model))
    from hugectr.export.numpy_reader import Tables

    assert not Tables(tmp_path).vectors({"keys": case.keys})["emb"].any()


def test_the_key_that_stands_for_none_is_refused():
    case = example(TOWER)
    case.model.set_table_rows("emb", np.array([-1]), np.ones((1, 6), np.float32))
    with pytest.raises(InvalidArgument, match="key -1"):
        image_of(case.model).tables[0].arrays()
