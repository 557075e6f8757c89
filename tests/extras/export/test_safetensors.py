# SPDX-License-Identifier: Apache-2.0
"""Tables in safetensors files, read by the library of that name."""

import numpy as np
from oracle.export_models import TOWER, example
from safetensors.numpy import load_file


def test_the_library_reads_what_is_written(tmp_path):
    case = example(TOWER, "Localized")
    bag = case.model.session.table(0).dump()
    found = load_file(case.model.export_table("emb", tmp_path / "emb.safetensors"))
    assert np.array_equal(found["emb.key"], bag["keys"])
    assert np.array_equal(found["emb.slot"], bag["slot_ids"])
    assert np.array_equal(found["emb.vector"], bag["vectors"])
