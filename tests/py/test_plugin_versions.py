# SPDX-License-Identifier: Apache-2.0
"""Which CUDA plug-in is taken, and that one of another version is refused.

The plug-ins here are made up by a C compiler; none needs a GPU or CUDA.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

import pytest

import hugectr

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(hugectr.__file__).parent


@pytest.fixture(scope="module")
def compiler():
    """A C compiler."""
    found = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
    if found is None:
        pytest.skip("no C compiler to make plug-ins with")
    return found


def make_plugin(compiler, path, body):
    source = path.with_suffix(".c")
    source.write_text(body + "\n")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", path, source], check=True)
    return path


def why_not(site=None, **variables):
    """What `hugectr.cuda.why_not()` says in a process of its own, twice."""
    code = "from hugectr import cuda; a = cuda.why_not(); assert a == cuda.why_not(); print(a)"
    environment = {k: v for k, v in os.environ.items() if k != "HUGECTR_CUDA_PLUGIN"}
    command = [sys.executable, "-c", code]
    if site is not None:
        # Without `site`, which would put an editable install before everything.
        paths = [str(site), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
        command = [sys.executable, "-S", "-P", "-c", f"import sys; sys.path += {paths}; {code}"]
    done = subprocess.run(
        command,
        env={**environment, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def version_function(version):
    return f'const char* hugectr_plugin_version(void) {{ return "{version}"; }}'


@pytest.mark.parametrize(
    ("body", "found"),
    [(version_function("0.0.9"), "0.0.9"), ("int nothing;", "unknown")],
)
def test_a_plugin_of_another_version_is_refused(compiler, tmp_path, body, found):
    path = make_plugin(compiler, tmp_path / "libhugectr_cuda.so", body)
    said = why_not(HUGECTR_CUDA_PLUGIN=str(path))
    version = hugectr.__version__
    assert f"the CUDA plug-in {path} is of version {found}" in said
    assert f"hugectr itself of version {version}" in said
    assert f'pip install "hugectr[cuda13]=={version}"' in said


def test_one_of_this_version_is_asked_for_its_devices(compiler, tmp_path):
    body = version_function(hugectr.__version__)
    path = make_plugin(compiler, tmp_path / "libhugectr_cuda.so", body)
    assert "registered no device backend" in why_not(HUGECTR_CUDA_PLUGIN=str(path))


@pytest.fixture
def site(tmp_path):
    """The package as it is installed, in a folder where other packages can be put beside it."""
    package = tmp_path / "site/hugectr"
    package.mkdir(parents=True)
    for entry in PACKAGE.iterdir():
        if entry.name == "libhugectr_cuda.so" or entry.name == "__pycache__":
            continue
        if entry.suffix == ".so":
            shutil.copy(entry, package)
        else:
            (package / entry.name).symlink_to(entry)
    openblas = Path(__import__("scipy_openblas32").__file__).parent
    (tmp_path / "site/scipy_openblas32").symlink_to(openblas)
    return tmp_path / "site"


def test_without_one_the_place_and_the_ways_out_are_named(site):
    said = why_not(site)
    assert f"looked for {site}/hugectr/libhugectr_cuda.so" in said
    for way in ("hugectr-cuda13", "HUGECTR_CUDA=ON pip install .", "HUGECTR_CUDA_PLUGIN"):
        assert way in said


def test_that_of_the_wheel_is_taken_unless_there_is_one_beside_the_library(compiler, site):
    (site / "hugectr_cuda13").mkdir()
    of_wheel = make_plugin(
        compiler, site / "hugectr_cuda13/libhugectr_cuda.so", version_function("of wheel")
    )
    assert f"plug-in {of_wheel} is of version of wheel" in why_not(site)
    beside = make_plugin(compiler, site / "hugectr/libhugectr_cuda.so", version_function("beside"))
    assert f"plug-in {beside} is of version beside" in why_not(site)


def test_the_two_projects_are_of_one_version():
    ours = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    plugin = tomllib.loads((ROOT / "packages/cuda13/pyproject.toml").read_text())["project"]
    version = ours["version"]
    assert plugin["version"] == version
    assert f"hugectr=={version}" in plugin["dependencies"]
    assert ours["optional-dependencies"]["cuda13"] == [f"hugectr-cuda13=={version}"]
    libraries = ours["optional-dependencies"]["cuda13-libraries"]
    assert set(plugin["dependencies"]) == {f"hugectr=={version}", *libraries}
