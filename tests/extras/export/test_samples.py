# SPDX-License-Identifier: Apache-2.0
"""Every sample in ``examples``: its export says what it predicts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
SHARED = {"arguments", "data", "generated", "real", "training"}
#: ``torch_*`` are models of PyTorch.
SAMPLES = sorted(
    path.stem
    for path in EXAMPLES.glob("*.py")
    if path.stem not in SHARED and not path.stem.startswith("torch_")
)

#: Trains a few steps, exports, and compares on keys and numbers that are drawn.
PROGRAM = """
import runpy, sys
import numpy as np, onnxruntime
import hugectr
from hugectr.export import to_onnx

fit = hugectr.Model.fit
hugectr.Model.fit = lambda self, **options: fit(self, **options | {"max_iter": 5})
name, path = sys.argv[1:]
sys.argv = [name]
model = runpy.run_path(name, run_name="__main__")["model"]
file = onnxruntime.InferenceSession(str(to_onnx(model, path)))
draw, given, asked = np.random.default_rng(1), {}, {}
for one in file.get_inputs():
    shape = [64, *(8 if isinstance(size, str) else size for size in one.shape[1:])]
    if one.type == "tensor(float)":
        given[one.name] = asked[one.name] = draw.normal(size=shape).astype(np.float32)
        continue
    given[one.name] = keys = draw.integers(0, 300, shape)
    counts = np.ones(shape[:2], int)
    if keys.ndim == 3:  # as many as a slot may have, and fewer
        param = model.input.sparse_param(one.name)
        most = np.minimum(param.nnz_per_slot, 8)
        counts = draw.integers(most if param.is_fixed_length else 0, most + 1, shape[:2])
        keys[np.arange(8) >= counts[:, :, None]] = -1
    asked[one.name] = (keys[keys >= 0], np.concatenate([[0], np.cumsum(counts)]))
for one in file.get_outputs():
    expected = model.predict(asked, output=one.name).reshape(64, -1)
    (found,) = file.run([one.name], given)
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5 * np.abs(expected).max())
    assert len(np.unique(expected)) > 32
"""


def run(name, folder):
    """The program on a sample whose data goes into the folder."""
    for script in EXAMPLES.glob("*.py"):
        (folder / script.name).write_text(script.read_text())
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, f"{name}.py", str(folder / "model.onnx")],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("name", SAMPLES)
def test_export_of_a_sample_predicts_what_the_sample_does(name, tmp_path):
    done = run(name, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
