# SPDX-License-Identifier: Apache-2.0
"""Settings of the readers in JSON configs."""

import pytest

import hugectr
from hugectr.base.no_effect import forget_warnings
from hugectr.config.config_file import read_config


def test_async_param_is_that_of_scripts(config, write_json):
    config["layers"][0] |= {
        "format": "RawAsync",
        "async_param": {"num_threads": 3, "io_block_size": 4096, "shuffle": True},
    }
    found = read_config(write_json(config)).layers.reader.async_param
    assert found == hugectr.AsyncParam(num_threads=3, io_block_size=4096, shuffle=True)
    config["layers"][0]["async_param"] = {"aligned_type": "Auto"}
    found = read_config(write_json(config)).layers.reader.async_param
    assert found == hugectr.AsyncParam(aligned_type=hugectr.Alignment_t.Auto)


def test_a_wrong_key_of_async_param_is_named(config, write_json):
    config["layers"][0]["async_param"] = {"num_thread": 3}
    with pytest.raises(hugectr.InvalidArgument, match=r"async_param\.num_thread: .*did you mean"):
        read_config(write_json(config))


def test_keys_of_create_solver_warn_in_a_config_too(config, write_json, capsys):
    forget_warnings()
    config["solver"] |= {"is_dlrm": True, "overlap_lr": True, "grouped_all_reduce": False}
    read_config(write_json(config))
    said = capsys.readouterr().err
    assert said.count("is_dlrm is accepted and has no effect") == 1
    assert said.count("overlap_lr is accepted and has no effect") == 1
    assert "grouped_all_reduce" not in said
