# SPDX-License-Identifier: Apache-2.0
"""Scripts are written as the original's are: without ``if __name__ == "__main__"``."""

import subprocess
import sys

import pytest

from hugectr.base.worker_processes import map_in_processes

SCRIPT = """
print("once")
import hugectr
from hugectr.tools import DataGenerator, DataGeneratorParams

params = DataGeneratorParams(
    format=hugectr.DataReaderType_t.{format}, label_dim=1, dense_dim=2, num_slot=3,
    i64_input_key=False, source={source!r}, eval_source={eval_source!r},
    slot_size_array=[50, 7, 1000], num_files=3, eval_num_files=2, num_samples_per_file=500, seed=5)
DataGenerator(params).generate(progress=False, processes={processes})
assert __file__.endswith("generate.py")
"""


def generate(folder, processes, kind="Norm"):
    """Bytes of all that a plain script writes."""
    folder.mkdir()
    script = folder / "generate.py"
    script.write_text(
        SCRIPT.format(
            format=kind,
            source=str(folder / "train" / "list.txt"),
            eval_source=str(folder / "eval" / "list.txt"),
            processes=processes,
        )
    )
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "once\n"
    files = sorted(p for p in folder.rglob("*.data"))
    assert files
    return [p.read_bytes() for p in files]


def test_a_plain_script_generates_data_in_several_processes(tmp_path):
    assert generate(tmp_path / "two", 2) == generate(tmp_path / "one", 1)


def test_results_come_in_order_and_errors_arrive():
    assert map_in_processes(abs, [-3, 2, -1], 2) == [3, 2, 1]
    assert map_in_processes(abs, [-3], 4) == [3]
    assert map_in_processes(abs, [], 2) == []
    with pytest.raises(TypeError, match="bad operand"):
        map_in_processes(abs, [1, "x"], 2)
    shown = []
    assert map_in_processes(abs, [-1, -2], 2, lambda r: map(shown.append, r)) == [None, None]
    assert shown == [1, 2]


def test_main_is_as_it_was():
    main = sys.modules["__main__"]
    before = vars(main).get("__file__"), main.__spec__
    map_in_processes(abs, [1, 2], 2)
    assert (vars(main).get("__file__"), main.__spec__) == before
