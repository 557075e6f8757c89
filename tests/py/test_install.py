# SPDX-License-Identifier: Apache-2.0
"""A C++ program outside the tree trains a model with the installed package."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from oracle.checkpoint_net import build as build_net, train

import hugectr
from hugectr.data import from_arrays

PROGRAM = Path(__file__).resolve().parents[1] / "cpp/install"


def run(*command, cwd):
    result = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def tool(name):
    beside_python = Path(sys.executable).parent / name
    found = beside_python if beside_python.exists() else shutil.which(name)
    if not found:
        pytest.skip(f"no {name} on this machine")
    return found


def test_cmake_dir_is_printed(tmp_path):
    printed = Path(run(sys.executable, "-m", "hugectr", "--cmake-dir", cwd=tmp_path).strip())
    assert printed == Path(hugectr.__file__).parent / "lib/cmake/hugectr"
    assert (printed / "hugectrConfig.cmake").exists()


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """The program, built against a copy of the package: nothing of the source tree can help it."""
    folder = tmp_path_factory.mktemp("install")
    package = folder / "site/hugectr"
    package.mkdir(parents=True)
    installed = Path(hugectr.__file__).parent
    for name in ("include", "lib"):
        shutil.copytree(installed / name, package / name)
    for library in installed.glob("libhugectr*.so"):
        shutil.copy(library, package)
    openblas = Path(__import__("scipy_openblas32").__file__).parent
    (folder / "site/scipy_openblas32").symlink_to(openblas)
    source = shutil.copytree(PROGRAM, folder / "program")

    return built(source, package, folder / "build") / "train_wide_and_deep"


def built(source, package, build):
    """The folder that a program outside the tree is built in."""
    run(
        tool("cmake"),
        *("-S", source, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release"),
        f"-DCMAKE_MAKE_PROGRAM={tool('ninja')}",
        f"-Dhugectr_DIR={package / 'lib/cmake/hugectr'}",
        cwd=source,
    )
    run(tool("cmake"), "--build", build, cwd=source)
    return build


def test_the_program_of_the_page_on_predictions(program):
    """It is printed there as it is here, and learns its three samples."""
    text = (PROGRAM / "predict.cpp").read_text().partition("\n")[2].rstrip("\n")
    page = (PROGRAM.parents[2] / "docs/prediction.md").read_text()
    assert f"```cpp\n{text}\n```" in page
    found = [float(line) for line in run(program.with_name("predict"), cwd=program.parent).split()]
    assert len(found) == 3
    assert found[0] < 0.3 < 0.7 < min(found[1:])


def csr(rows):
    """Keys of the slots of samples, as ``from_arrays`` takes them."""
    slots = [slot for row in rows for slot in row]
    keys = np.array([key for slot in slots for key in slot], np.int64)
    return keys, np.cumsum([0, *map(len, slots)]).astype(np.uint64)


@pytest.fixture(scope="module")
def predict_saved(program):
    """The program of ``examples/cpp``."""
    folder = program.parents[1]
    source = shutil.copytree(PROGRAM.parents[2] / "examples/cpp", folder / "predict_saved")
    return built(source, folder / "site/hugectr", folder / "build_saved") / "predict_saved"


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A checkpoint of a model of 3 numbers and 5 slots."""
    model = build_net(norm=True)
    train(model, 20)
    return model.save(tmp_path_factory.mktemp("saved") / "run")


def test_a_saved_model_predicts_in_a_program_of_its_own(predict_saved, saved, tmp_path):
    """``examples/cpp`` gives the bits that Python gives, for slots of no, one and several keys."""
    rows = [[[3], [104, 103, 999], [], [5, 4], [8]], [[17], [], [3], [9], [1]], [[0]] * 5]
    dense = np.array([[0.1, -1.5, 3e-5], [0, 0.25, 1], [1 / 3, 2, -7]], np.float32)
    lines = [
        " | ".join(" ".join(map(str, part)) for part in [[repr(float(x)) for x in numbers], *slots])
        for numbers, slots in zip(dense, rows, strict=True)
    ]
    (tmp_path / "samples.txt").write_text("\n".join(lines) + "\n")
    found = run(predict_saved, saved.parent, tmp_path / "samples.txt", cwd=tmp_path)
    sparse = {"ones": csr([row[:2] for row in rows]), "twos": csr([row[2:] for row in rows])}
    wanted = hugectr.load(saved).predict(from_arrays(np.zeros(3, np.float32), dense, sparse))
    assert np.array(found.split(), np.float32).tobytes() == wanted.tobytes()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("1 2 3 | 4 | 5 | 6 | 7", "line 2: needs a | before the keys of each of 5 slots"),
        ("1 2 3 | 4 | 5 | 6 | 7 | 8 | 9", "line 2: needs a |"),
        ("1 2 3 | 4 | 5 | 6 | 7 | 8.5", "line 2: '8.5' is no number"),
        ("1 2 3 | 4 | 5 | 6 | 7 | 99999999999999999999", "'99999999999999999999' is no number"),
        ("1 2 3 red | 4 | 5 | 6 | 7 | 8", "line 2: 'red' is no number"),
        ("1 2 | 4 | 5 | 6 | 7 | 8", "line 2: needs 3 dense numbers"),
        (None, "can not open"),
    ],
)
def test_that_program_takes_no_sample_for_another(predict_saved, saved, tmp_path, line, said):
    path = tmp_path / "samples.txt"
    if line is not None:
        path.write_text(f"1 2 3 | 4 | 5 | 6 | 7 | 8\n{line}\n")
    result = subprocess.run(
        [predict_saved, saved, path], capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 1
    assert said in result.stderr
    assert not result.stdout


def check_training(output):
    losses = [float(loss) for loss in re.findall(r"^step \d+ loss (\S+)$", output, re.MULTILINE)]
    assert len(losses) == 5
    assert 0.5 < losses[0] < 1.0  # close to ln 2 before anything is learned
    assert losses[-1] < 0.5 * losses[0]
    assert "python in the process: no" in output


def test_a_program_outside_the_tree_trains(program):
    output = run(program, "cpu", 2, cwd=program.parent)
    check_training(output)
    assert output.startswith("device ")


def test_it_takes_the_gpu_when_there_is_one(program):
    output = run(program, cwd=program.parent)
    check_training(output)
    reason = hugectr.cuda.why_not()
    assert ("CPU, because" in output) == bool(reason)
