# SPDX-License-Identifier: Apache-2.0
"""The layout check passes on this tree and finds each kind of offence in a made-up one."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SPDX = "// SPDX-License-Identifier: Apache-2.0\n"


def load_check_layout():
    spec = importlib.util.spec_from_file_location("check_layout", ROOT / "tools/check_layout.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


check_layout = load_check_layout()


@pytest.mark.skipif(not (ROOT / "tools").exists(), reason="not run from a source tree")
def test_this_tree_is_in_order():
    assert check_layout.check(ROOT) == []


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("core/cpp/base/a.hpp", "#pragma once\n", "licence line"),
        ("core/cpp/base/a.hpp", SPDX + "\n" * 400, "lines"),
        ("core/cpp/base/string_utils.hpp", SPDX, "file name"),
        ("core/cpp/ops/fused_linear.hpp", SPDX, "file name"),
        ("hugectr/model_v2.py", "# SPDX-License-Identifier: Apache-2.0\n", "file name"),
        ("core/cpp/layers/half.hpp", SPDX, "file name"),
        ("core/cpp/base/a.cpp", SPDX + "// " + "TO" + "DO: later\n", "finish it"),
        ("core/cpp/base/a.cu", SPDX, "core/cuda"),
        ("core/cpp/base/a.cpp", SPDX + "#include <cuda_runtime.h>\n", "CUDA include"),
        ("core/cpp/base/a.cpp", SPDX + "f<<<1, 2>>>();\n", "kernel launches"),
        ("core/cpp/base/a.cpp", SPDX + '#include "a.hpp"\n', "from the root"),
        ("core/cpp/base/a.cpp", SPDX + '#include "core/cpp/ops/b.hpp"\n', "may not include ops"),
        ("core/cpp/ops/a.cpp", SPDX + '#include "core/cpp/layers/b.hpp"\n', "may not include"),
        (
            "core/cpp/embedding/table/a.cpp",
            SPDX + '#include "core/cpp/embedding/placement/placement.hpp"\n',
            "embedding/table may not include",
        ),
        (
            "core/cpp/embedding/exchange/a.cpp",
            SPDX + '#include "core/cpp/embedding/lookup/lookup_group.hpp"\n',
            "embedding/exchange may not include",
        ),
        (
            "core/cpp/embedding/lookup/a.cpp",
            SPDX + "if (type == EmbeddingType::LocalizedSlotSparseEmbeddingHash) return;\n",
            "identity and its placement",
        ),
        (
            "core/cpp/model/a.cpp",
            SPDX + "return t.type == EmbeddingType::LocalizedSlotSparseEmbeddingHash;\n",
            "identity and its placement",
        ),
        ("core/cpp/attic/a.cpp", SPDX + '#include "core/cpp/base/b.hpp"\n', "not in the table"),
    ],
)
def test_finds_an_offence(name, text, expected):
    findings = list(check_layout.check_file(name, text))
    assert len(findings) == 1
    assert expected in findings[0]
    assert name in findings[0]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("core/cpp/base/half.hpp", SPDX),
        ("core/cpp/device/resource_manager.hpp", SPDX),
        ("core/cpp/ops/a.cpp", SPDX + '#include "core/cpp/base/b.hpp"\n'),
        ("core/cpp/ops/a.cpp", SPDX + "\n" * 399),
        (
            "core/cpp/embedding/exchange/a.cpp",
            SPDX + '#include "core/cpp/embedding/lookup/lookup_plan.hpp"\n',
        ),
        (
            "core/cpp/embedding/sharded_table.cpp",
            SPDX + '#include "core/cpp/embedding/table/row_load.hpp"\n',
        ),
        (
            "core/cpp/model/a.hpp",
            SPDX + "EmbeddingType type = EmbeddingType::DistributedSlotSparseEmbeddingHash;\n",
        ),
    ],
)
def test_accepts_what_is_in_order(name, text):
    assert list(check_layout.check_file(name, text)) == []


def test_an_op_needs_its_loop_and_its_test(tmp_path):
    ops = tmp_path / "core/cpp/ops"
    ops.mkdir(parents=True)
    (ops / "relu.hpp").write_text(SPDX + 'static constexpr const char* kName = "relu_fwd";\n')
    (ops / "lost_and_found.hpp").write_text(SPDX)
    expected = ["lost_and_found.hpp: holds no operation", "no relu.cpp", "no test"]
    for finding, text in zip(check_layout.check_ops(tmp_path), expected, strict=False):
        assert text in finding
    (ops / "relu.cpp").write_text(SPDX)
    tests = tmp_path / "tests/py/ops"
    tests.mkdir(parents=True)
    (tests / "test_relu.py").write_text("# SPDX-License-Identifier: Apache-2.0\n")
    assert not [line for line in check_layout.check_ops(tmp_path) if "relu" in line]
