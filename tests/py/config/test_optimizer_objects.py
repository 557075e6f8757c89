# SPDX-License-Identifier: Apache-2.0
"""The ``optimizer`` object of a config: its type, and which parameters count."""

import pytest

import hugectr
from hugectr.config.config_file import read_config

SGD = {"learning_rate": 0.5}


def test_parameters_of_another_type_alone_are_refused(config, write_json):
    config["optimizer"]["type"] = "SGD"  # and adam_hparam, with its rate, is what it was
    with pytest.raises(hugectr.InvalidArgument, match=r"optimizer.adam_hparam.*sgd_hparam"):
        read_config(write_json(config))


def test_those_of_a_table_too(config, write_json):
    config["layers"][1]["optimizer"] = {"type": "AdaGrad", "sgd_hparam": SGD}
    with pytest.raises(
        hugectr.InvalidArgument, match=r"layers\[1\].optimizer.sgd_hparam.*adagrad_"
    ):
        read_config(write_json(config))


def test_parameters_of_other_types_beside_its_own_are_left_alone(config, write_json):
    config["optimizer"] |= {"type": "SGD", "sgd_hparam": SGD}
    read = read_config(write_json(config)).optimizer
    assert read.optimizer_type is hugectr.Optimizer_t.SGD
    assert read.schedule.base_lr == 0.5


def test_a_type_without_any_parameters_has_its_defaults(config, write_json):
    config["layers"][1]["optimizer"] = {"type": "AdaGrad"}
    read = read_config(write_json(config)).layers.embeddings[0].optimizer
    assert read.optimizer_type is hugectr.Optimizer_t.AdaGrad


def test_the_value_that_stands_there_is_named(config, write_json):
    config["optimizer"]["global_update"] = False
    with pytest.raises(hugectr.InvalidArgument, match="global_update: found False"):
        read_config(write_json(config))
