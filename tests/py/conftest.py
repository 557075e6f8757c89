# SPDX-License-Identifier: Apache-2.0
"""What tests of ops and layers share: fresh inputs, strided rows, comparison, float64 gradients."""

import functools
import secrets
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

Array = npt.NDArray[np.float32]
Array64 = npt.NDArray[np.float64]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--device",
        choices=("all", "cpu", "cuda"),
        default="all",
        help="where tests of ops and layers run; all: the CPU, and CUDA when there is a GPU",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "cpu_only: a test of ops about the CPU alone")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "device" not in metafunc.fixturenames:
        return
    from hugectr import _core  # not above: some tests need no built module

    chosen = metafunc.config.getoption("--device")
    reason = _core.why_not("cuda")
    if chosen == "cuda" and reason:
        raise pytest.UsageError(f"--device=cuda: {reason}")
    if chosen == "cpu" or reason or metafunc.definition.get_closest_marker("cpu_only"):
        devices = ["cpu"]
    else:
        devices = {"cuda": ["cuda"], "all": ["cpu", "cuda"]}[chosen]
    metafunc.parametrize("device", devices)


@pytest.fixture
def run_on_device(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets ops and networks that name no device run on every device there is, one after another."""
    from hugectr import _core

    for name in ("run_op", "Network"):
        monkeypatch.setattr(_core, name, functools.partial(getattr(_core, name), device=device))


@pytest.fixture
def rng() -> np.random.Generator:
    """Fresh random numbers in every run; the seed is in the output of a failing test."""
    seed = secrets.randbits(32)
    print(f"seed {seed}")
    return np.random.default_rng(seed)


@pytest.fixture(params=[False, True], ids=["packed", "strided"])
def rows(request: pytest.FixtureRequest, rng: np.random.Generator) -> Callable[..., Array]:
    """``rows(shape)``: random float32 rows, once contiguous and once as columns of a wider array.

    ``rows(array)`` lays given values out that way.
    """

    def make(values: tuple[int, ...] | npt.NDArray[np.generic]) -> Array:
        array = rng.standard_normal(values) if isinstance(values, tuple) else values
        array = array.astype(np.float32)
        if not request.param:
            return np.ascontiguousarray(array)
        row_size = int(np.prod(array.shape[1:]))
        wide = np.full((array.shape[0], row_size + 5), np.float32(7.0))
        view = np.lib.stride_tricks.as_strided(
            wide[:, 3:], array.shape, (wide.strides[0], *array.strides[1:])
        )
        view[...] = array
        return view

    return make


@pytest.fixture
def assert_close() -> Callable[..., None]:
    """``assert_close(found, wanted)``: relative distance of the whole arrays at most 1e-5.

    ``scale``: norm of the terms that ``wanted`` is the sum of. Where few numbers can cancel, the
    rounding of float32 is relative to the terms, not to what is left of them.
    """

    def check(
        found: npt.ArrayLike,
        wanted: npt.ArrayLike,
        what: str = "",
        tolerance: float = 1e-5,
        scale: float = 0.0,
    ) -> None:
        a, b = np.asarray(found, np.float64), np.asarray(wanted, np.float64)
        assert a.shape == b.shape, f"{what}: shape {a.shape}, wanted {b.shape}"
        assert np.isfinite(a).all(), f"{what}: not finite"
        distance = np.linalg.norm(a - b) / max(np.linalg.norm(b), scale, 1e-30)
        assert distance <= tolerance, f"{what}: distance {distance:.2e}"

    return check


@pytest.fixture
def numeric_gradients() -> Callable[..., list[Array64]]:
    """``numeric_gradients(f, arguments, dy)``: central differences of ``sum(f(*arguments) * dy)``.

    Everything in float64; ``f`` may return one array or a list of them, ``dy`` fits.
    """

    def gradients(
        f: Callable[..., Array64 | list[Array64]],
        arguments: list[npt.NDArray[np.generic]],
        dy: npt.NDArray[np.generic] | list[npt.NDArray[np.generic]],
        step: float = 1e-4,
    ) -> list[Array64]:
        points = [np.array(a, np.float64) for a in arguments]
        weights = [np.asarray(d, np.float64) for d in (dy if isinstance(dy, list) else [dy])]

        def loss() -> float:
            values = f(*points)
            parts = values if isinstance(values, list) else [values]
            return float(sum(np.sum(v * w) for v, w in zip(parts, weights, strict=True)))

        result = []
        for point in points:
            gradient = np.zeros_like(point)
            for index in np.ndindex(point.shape):
                centre = point[index]
                point[index] = centre + step
                above = loss()
                point[index] = centre - step
                gradient[index] = (above - loss()) / (2 * step)
                point[index] = centre
            result.append(gradient)
        return result

    return gradients
