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


def test_async_param_by_position_in_two_versions(capsys):
    """3.3 has seven settings with a block's bytes as the third; 4.1 nine, and requests there."""
    forget_warnings()
    kind = hugectr.Alignment_t.Non
    old = hugectr.AsyncParam(16, 4, 51200, 4, 512, True, kind)
    assert (old.io_block_size, old.multi_hot_reader, old.shuffle) == (51200, None, True)
    assert "max_num_requests" not in capsys.readouterr().err
    new = hugectr.AsyncParam(1, 16, 72, 4, 512, True, kind, True, False)
    assert new.io_block_size == hugectr.AsyncParam().io_block_size
    assert (new.multi_hot_reader, new.is_dense_float, new.keep_resident_mb) == (True, False, 0)
    assert "max_num_requests_per_thread=72 is accepted" in capsys.readouterr().err


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
