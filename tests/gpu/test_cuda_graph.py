# SPDX-License-Identifier: Apache-2.0
"""A step replayed as a CUDA graph is the step launched kernel by kernel, bit for bit."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hugectr

sys.path.insert(0, str(Path(__file__).parent))

from census import train

pytestmark = pytest.mark.skipif(
    not hugectr.cuda.is_available(), reason="no GPU: " + hugectr.cuda.why_not()
)


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_graph_and_launches_give_the_same_bits(optimizer):
    with_graph, model = train("cuda", optimizer, 40)
    without, other = train("cuda", optimizer, 40, use_cuda_graph=False)
    np.testing.assert_array_equal(with_graph, without)
    assert model.session.network.captured_pieces() > 0
    assert other.session.network.captured_pieces() == 0
    a, b = model.session.table(0).dump(True), other.session.table(0).dump(True)
    np.testing.assert_array_equal(a["vectors"], b["vectors"])


def test_evaluation_and_a_changed_learning_rate_reach_the_graph():
    results = []
    for use_cuda_graph in (True, False):
        _, model = train("cuda", "SGD", 10, use_cuda_graph=use_cuda_graph)
        values = []
        for lr in (0.5, 0.0, 0.25):
            model.set_learning_rate(lr)
            for _ in range(4):
                model.train()
                values.append(model.get_current_loss())
            for _ in range(3):
                model.eval()
            values += [value for _, value in model.get_eval_metrics()]
        results.append(values)
    assert results[0] == results[1]
    assert len(set(results[0])) > 12, "the learning rate changes nothing"


@pytest.mark.parametrize("variable", ["HUGECTR_SYNC=1", "HUGECTR_FUSE=0"])
def test_other_ways_to_run_still_work(variable):
    expected, _ = train("cuda", "SGD", 6)
    name, value = variable.split("=")
    code = "from census import train; print(*train('cuda', 'SGD', 6)[0].tolist())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent,
        env=os.environ | {name: value},
    )
    got = [float(word) for word in done.stdout.splitlines()[-1].split()]
    np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_a_profile_times_every_op_and_leaves_the_run_as_it_was():
    expected, _ = train("cuda", "SGD", 30)
    _, model = train("cuda", "SGD", 10)
    times = model.profile(10)
    ops = [str(time["op"]) for time in times if time["stream"] == "compute"]
    assert {"embedding_lookup", "embedding_update", "dense_update"} <= set(ops)
    assert all(ops.count(op) % 10 == 0 for op in set(ops))
    assert {"hash_get_insert", "lookup_sort"} <= {
        str(time["op"]) for time in times if time["stream"] == "plan"
    }
    assert {"fc1", "fc2", "loss"} <= {time["layer"] for time in times}
    assert all(time["ms"] >= 0 for time in times)
    curve = []
    for _ in range(10):
        model.train()
        curve.append(model.get_current_loss())
    np.testing.assert_array_equal(curve, expected[20:])
