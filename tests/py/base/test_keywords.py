# SPDX-License-Identifier: Apache-2.0
"""What is mistyped names what was meant."""

import copy
import inspect
import pickle

import pytest

import hugectr


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: hugectr.CreateSolver(batch_size=5),
            r"CreateSolver: there is no argument 'batch_size' \(did you mean 'batchsize'\?\)",
        ),
        (
            lambda: hugectr.CreateSolver(qqq=5),
            r"there is no argument 'qqq'; help\(hugectr.CreateSolver\) lists",
        ),
        (
            lambda: hugectr.DataReaderParams(hugectr.DataReaderType_t.Norm, sourse="x"),
            r"DataReaderParams: .*'sourse' \(did you mean 'source'\?\)",
        ),
        (
            lambda: hugectr.SparseEmbedding(vec_size=3),
            r"SparseEmbedding: .*'vec_size' \(did you mean 'embedding_vec_size'\?\)",
        ),
        (
            lambda: hugectr.DataReaderSparseParam(top_nam="x"),
            r"DataReaderSparseParam: .*'top_nam' \(did you mean 'top_name'\?\)",
        ),
    ],
)
def test_keywords(call, text):
    with pytest.raises(TypeError, match=text):
        call()


def test_members_of_enums():
    with pytest.raises(AttributeError, match=r"Optimizer_t has no member 'Adamm' .*'Adam'.*Ftrl"):
        hugectr.Optimizer_t.Adamm  # noqa: B018
    assert not hasattr(hugectr.Layer_t, "Nonsense")
    for value in (hugectr.Optimizer_t.Adam, hugectr.Layer_t.ReLU):
        assert copy.deepcopy(value) is value
        assert pickle.loads(pickle.dumps(value)) is value  # what a user's own process pool does


def test_a_solver_is_still_described():
    assert "batchsize_eval" in inspect.signature(hugectr.CreateSolver).parameters
