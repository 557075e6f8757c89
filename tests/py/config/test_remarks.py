# SPDX-License-Identifier: Apache-2.0
"""Configurations as people leave them: with remarks, and the first mark of an editor of Windows."""

import json

import pytest

import hugectr
from hugectr.config.config_file import read_config
from hugectr.data.regular_file import read_file_list

PLACES = [
    (),
    ("solver",),
    ("optimizer",),
    ("optimizer", "adam_hparam"),
    ("layers", 0),
    ("layers", 0, "sparse", 0),
    ("layers", 1),
    ("layers", 1, "sparse_embedding_hparam"),
    ("layers", 4, "fc_param"),
]


@pytest.mark.parametrize("name", ["_comment", "//", "# why", "$comment", "comment", "comment2"])
def test_remarks_are_left_out_everywhere(config, write_json, name):
    plain = read_config(write_json(config))
    for way in PLACES:
        place = config
        for key in way:
            place = place[key]
        place[name] = ["tuned by hand", {"by": "me"}]
    read = read_config(write_json(config))
    assert read.solver == plain.solver
    assert read.layers.reader == plain.layers.reader
    assert read.layers.embeddings[0].rows_per_gpu == plain.layers.embeddings[0].rows_per_gpu
    specs = [[layer.to_spec() for layer in one.layers.dense] for one in (read, plain)]
    assert specs[0] == specs[1]


@pytest.mark.parametrize("name", ["coment", "note", "batch_size"])
def test_other_unknown_keys_are_refused(config, write_json, name):
    config["solver"][name] = 1
    with pytest.raises(hugectr.InvalidArgument, match=f"solver.{name}: unknown key"):
        read_config(write_json(config))


def test_the_mark_before_a_text_is_no_part_of_it(config, tmp_path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config), encoding="utf-8-sig")
    assert read_config(file).layers.input.dense_dim == 3
    file.write_text("1\na.parquet\n", encoding="utf-8-sig")
    assert read_file_list(file) == ["a.parquet"]
