# SPDX-License-Identifier: Apache-2.0
"""The layout check passes on this tree and finds each kind of offence in a made-up one."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SPDX = "// SPDX-License-Identifier: Apache-2.0\n"
PY = "# SPDX-License-Identifier: Apache-2.0\n"


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
        ("hugectr/model/model_v2.py", "# SPDX-License-Identifier: Apache-2.0\n", "file name"),
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
        ("core/cuda/memory/a.cu", SPDX + '#include "core/cuda/device/b.hpp"\n', "may not include"),
        ("core/cuda/ops/a.cu", SPDX + '#include "core/cpp/embedding/b.hpp"\n', "may not include"),
        ("core/cuda/ops/a.cu", SPDX + '#include "b.cuh"\n', "from the root"),
        ("core/cuda/attic/a.cu", SPDX + '#include "core/cpp/base/b.hpp"\n', "not in the table"),
        ("hugectr/spec/a.py", PY + "from hugectr.model.fit import Fit\n", "may not import model"),
        ("hugectr/spec/a.py", PY + "from hugectr import model\n", "may not import"),
        ("hugectr/spec/a.py", PY + "import hugectr.model\n", "may not import model"),
        ("hugectr/data/a.py", PY + "import hugectr\n", "may not import hugectr"),
        ("hugectr/data/a.py", PY + "from hugectr import Model\n", "may not import hugectr"),
        ("hugectr/data/a.py", PY + "def f():\n    import hugectr.spec\n", "may not import spec"),
        ("hugectr/attic/a.py", PY + "import os\n", "not in the table"),
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
        ("core/cuda/ops/a.cu", SPDX + '#include "core/cpp/ops/b.hpp"\n'),
        ("core/cuda/ops/a.cu", SPDX + '#include "core/cuda/primitives/b.cuh"\n'),
        ("hugectr/model/a.py", PY + "from hugectr.spec.solver import Solver\n"),
        ("hugectr/spec/a.py", PY + "if TYPE_CHECKING:\n    from hugectr.model import fit\n"),
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


PLANTED = {
    "base/log.py": "import json\n",
    "spec/solver.py": "from hugectr.base import log\n",
    "model/model.py": "from hugectr.spec.solver import Solver\n",
}


def packages(folder, **more):
    """A tree of Python packages, and the circles that are found in it."""
    for name, text in (
        PLANTED | {f"{k.replace('__', '/')}.py": v for k, v in more.items()}
    ).items():
        path = folder / "hugectr" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PY + text)
    return list(check_layout.check_circles(folder))


def test_packages_without_a_circle_pass(tmp_path):
    assert packages(tmp_path) == []


@pytest.mark.parametrize(
    "text", ["from hugectr.model import model\n", "from hugectr import model\n"]
)
@pytest.mark.parametrize("lazily", [False, True])
def test_a_planted_circle_of_packages_is_found(tmp_path, text, lazily):
    text = f"def late():\n    {text}" if lazily else text
    (finding,) = packages(tmp_path, base__log=text)
    assert "base -> model -> spec -> base" in finding


def test_an_import_for_types_alone_makes_no_circle(tmp_path):
    text = "if TYPE_CHECKING:\n    from hugectr.model import model\n"
    assert packages(tmp_path, base__log=text) == []


@pytest.mark.parametrize("table", ["ALLOWED_INCLUDES", "ALLOWED_CUDA_INCLUDES", "ALLOWED_IMPORTS"])
def test_a_circle_in_a_table_is_found(tmp_path, monkeypatch, table):
    rooms = getattr(check_layout, table)
    monkeypatch.setitem(rooms, "memory", {*rooms.get("memory", ()), "device"})
    monkeypatch.setitem(rooms, "device", {*rooms.get("device", ()), "memory"})
    (finding,) = check_layout.check_circles(tmp_path)
    assert "device -> memory -> device" in finding
