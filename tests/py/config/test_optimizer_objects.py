# SPDX-License-Identifier: Apache-2.0
"""The ``optimizer`` object of a config: its type, and which parameters count."""

import pytest

import hugectr
from hugectr.config.config_file import get_learning_rate_scheduler, read_config
from hugectr.model.from_config import build_model

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


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"learning_rate": 0.5}, True),
        ({"learning_rate": 0.01}, False),  # as all
        ({"learning_rate": 0.01, "warmup_steps": 7}, True),
        ({"epsilon": 0.1}, False),
    ],
)
def test_a_rate_of_a_table_that_nobody_follows_is_said(config, write_json, own, said, capfd):
    config["optimizer"] = {"type": "SGD", "sgd_hparam": {"learning_rate": 0.01}}
    config["layers"][1]["optimizer"] = {"type": "AdaGrad", "adagrad_hparam": own}
    model = build_model(read_config(write_json(config)))
    name = model._graph.embeddings[0].sparse_embedding_name
    found = [line for line in "".join(capfd.readouterr()).splitlines() if "WARNING" in line]
    assert len(found) == said
    assert all(name in text and "Leave it out of tables" in text for text in found)


def test_a_schedule_counts_without_its_rate(config, write_json):
    config["optimizer"] = {"type": "SGD", "sgd_hparam": {"warmup_steps": 4}}
    file = write_json(config)
    assert read_config(file).optimizer.schedule.warmup_steps == 4
    assert get_learning_rate_scheduler(file).get_next() == pytest.approx(0.001 / 4)
