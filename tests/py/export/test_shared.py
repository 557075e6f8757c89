# SPDX-License-Identifier: Apache-2.0
"""Tables of several inputs and models of several losses, as NumPy computes their exports."""

import numpy as np
import pytest
from oracle.export_shared import KEYS, LOSSES, MOST, ROWS, SIZE, shared
from oracle.program import run

from hugectr.export.image import image_of
from hugectr.export.tables_beside import write_tables_beside

TABLES = [
    ("Distributed", "sum"),
    ("Distributed", "mean"),
    ("Distributed", "concat"),
    ("Localized", "sum"),
    ("Localized", "mean"),
]


def found_by_numpy(case, folder):
    """Outputs of the program in float64, on the vectors of the reader."""
    image = image_of(case.model)
    write_tables_beside(folder, image)
    from hugectr.export.numpy_reader import Tables

    vectors = Tables(folder).vectors(case.inputs)
    places = 2 + (sum(MOST) if case.model.embeddings[0].combiner == "concat" else 2)
    assert vectors["emb"].shape == (ROWS, places, SIZE)
    values = run(image.program, {**vectors, "dense": case.inputs["dense"]})
    return {name: values[name] for name in image.outputs}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("embedding", "combiner"), TABLES)
def test_each_loss_predicts_what_the_model_does(tmp_path, embedding, combiner, seed):
    case = shared(embedding, combiner, seed=seed)
    found = found_by_numpy(case, tmp_path)
    assert list(found) == list(case.expected)
    for name, expected in case.expected.items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-5, atol=1e-5, err_msg=name)
        assert np.std(expected[:, 0]) > 0.01
    assert found["probability"].shape == (ROWS, sum(columns for _, _, columns in LOSSES))


def test_one_loss_gives_one_probability(tmp_path):
    case = shared(several_losses=False)
    found = found_by_numpy(case, tmp_path)
    assert list(found) == ["click_logit", "probability"]
    np.testing.assert_allclose(found["probability"], case.expected["probability"], atol=1e-5)


def test_the_reader_names_the_input_whose_keys_do_not_fit(tmp_path):
    case = shared(several_losses=False)
    write_tables_beside(tmp_path, image_of(case.model))
    from hugectr.export.numpy_reader import Tables

    with pytest.raises(ValueError, match=r"'emb': keys of 'item' must have shape \(batch, 2\)"):
        Tables(tmp_path).vectors(case.inputs | {"item": np.zeros((ROWS, 3), int)})


def test_inputs_of_one_table_read_the_same_rows(tmp_path):
    case = shared("Distributed", "sum")
    write_tables_beside(tmp_path, image_of(case.model))
    from hugectr.export.numpy_reader import Tables

    keys = np.tile(np.arange(KEYS)[:ROWS, None], (1, 2))
    found = Tables(tmp_path).lookup("emb", keys, keys[..., None])
    assert found.any()
    np.testing.assert_array_equal(found[:, :2], found[:, 2:])
