# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.activations import relu
from oracle.partials import partial_rows
from oracle.reals import HALVES, REALS

from hugectr import _core

NON, RELU = 0, 1
SHAPES = [(7, 3, 4), (1100, 29, 40), (700, 50, 1), (1, 6, 5), (600, 1, 3)]


def formula(x, w, b, activation):
    y = x @ w + b
    return relu(y) if activation == RELU else y


def float_(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("activation", [NON, RELU])
@pytest.mark.parametrize(("batch", "n", "m"), SHAPES)
def test_linear_fwd(rows, rng, assert_close, batch, n, m, activation, with_bias):
    x, w = rows((batch, n)), float_(rng, n, m)
    b = float_(rng, m) if with_bias else None
    y = rows(np.full((batch, m), np.nan))
    _core.run_op("linear_fwd", {"x": x, "w": w, "b": b, "y": y}, {"activation": activation})
    wanted = formula(x.astype(np.float64), w, b if with_bias else 0.0, activation)
    assert_close(y, wanted, tolerance=1e-5 if np.any(wanted) else np.inf)


def run_backward(rng, x, w, dy, activation, y=None, dx=None, dz=None, with_bias=True):
    n, m = w.shape
    dw, db = float_(rng, n, m), float_(rng, m)
    tensors = {
        "x": x,
        "w": w,
        "y": y,
        "dy": dy,
        "dz": dz,
        "dx": dx,
        "dw": dw.copy(),
        "db": db.copy() if with_bias else None,
        "partial": np.full((partial_rows(dy.size // m), m), np.nan, np.float32),
    }
    _core.run_op("linear_bwd", tensors, {"activation": activation})
    return tensors["dw"] - dw, tensors["db"] - db if with_bias else None


@pytest.mark.parametrize("activation", [NON, RELU])
@pytest.mark.parametrize(("batch", "n", "m"), SHAPES)
def test_linear_bwd(rows, rng, assert_close, batch, n, m, activation):
    x, w, dy = rows((batch, n)), float_(rng, n, m), rows((batch, m))
    y = rows(formula(x.astype(np.float64), w, float_(rng, m), activation))
    dx, dz = (rows(np.full(shape, np.nan)) for shape in ((batch, n), (batch, m)))
    dw, db = run_backward(rng, x, w, dy, activation, y, dx, dz)
    wanted_dz = dy.astype(np.float64)
    if activation == RELU:
        wanted_dz = wanted_dz * (y > 0)
        np.testing.assert_array_equal(dz, wanted_dz)
    # The random start of dw and db costs digits where the sums are small.
    scale = np.linalg.norm(wanted_dz) * (1 + np.linalg.norm(x) / np.sqrt(x.size))
    assert np.linalg.norm(dw - x.astype(np.float64).T @ wanted_dz) <= 1e-5 * scale * np.sqrt(n)
    assert np.linalg.norm(db - wanted_dz.sum(0)) <= 1e-5 * scale
    if np.any(wanted_dz):
        assert_close(dx, wanted_dz @ w.T.astype(np.float64))
    else:
        assert not np.any(dx)


def test_linear_bwd_without_dx_and_bias_and_with_dz_on_dy(rng, assert_close):
    x, w, dy = float_(rng, 300, 8), float_(rng, 8, 5), float_(rng, 300, 5)
    y = float_(rng, 300, 5)
    wanted = x.astype(np.float64).T @ (dy * (y > 0))
    dw, _ = run_backward(rng, x, w, dy, RELU, y, dz=dy, with_bias=False)
    assert_close(dw, wanted)


def test_linear_takes_three_dimensions(rng, assert_close):
    x, w, b = float_(rng, 6, 4, 3), float_(rng, 3, 5), float_(rng, 5)
    y = np.full((6, 4, 5), np.nan, np.float32)
    _core.run_op("linear_fwd", {"x": x, "w": w, "b": b, "y": y}, {"activation": RELU})
    assert_close(y, relu(x.astype(np.float64) @ w + b))
    dy, dx, dz = float_(rng, 6, 4, 5), np.empty_like(x), np.empty_like(y)
    dw, db = run_backward(rng, x, w, dy, RELU, y, dx, dz)
    wanted = (dy * (y > 0)).astype(np.float64)
    assert_close(dx, wanted @ w.T)
    assert_close(dw, np.einsum("bsn,bsm->nm", x.astype(np.float64), wanted))
    assert_close(db, wanted.sum((0, 1)))


@pytest.mark.parametrize("activation", [NON, RELU])
def test_linear_gradient_is_the_derivative(rng, assert_close, numeric_gradients, activation):
    x, w, b, dy = float_(rng, 4, 3), float_(rng, 3, 2), float_(rng, 2), float_(rng, 4, 2)
    x += np.sign(x)  # away from the kink of relu, mostly
    y = formula(x.astype(np.float64), w, b, activation)
    if np.abs(x.astype(np.float64) @ w + b).min() < 1e-2:
        pytest.skip("a unit lies on the kink of relu in this draw")
    dx, dz = np.empty_like(x), np.empty_like(dy)
    dw, db = run_backward(rng, x, w, dy, activation, y.astype(np.float32), dx, dz)
    wanted = numeric_gradients(lambda *a: formula(*a, activation), [x, w, b], dy)
    if np.any(wanted[0]):
        assert_close(dx, wanted[0])
        assert_close(dw, wanted[1])
        assert_close(db, wanted[2])


def stored(real, rng, *shape, pad=0):
    """Random stored numbers, as columns of a wider array when ``pad`` is not 0."""
    wide = real.store(rng.standard_normal((*shape[:-1], shape[-1] + pad)))
    return wide[..., : shape[-1]]


def assert_sums_close(found, terms, before=0.0, tolerance=1e-5):
    """Column sums, against the norm of what is summed: sums of any sign may cancel to nothing."""
    distance = np.linalg.norm(found - (terms.sum(0) + before))
    assert distance <= tolerance * np.linalg.norm(terms), distance


# Widths of whole 16-byte packs and others, and the narrow ones that have kernels of their own.
WIDTHS = [(300, 40, 64), (1100, 29, 40), (700, 264, 1), (301, 45, 1), (600, 13, 24), (65, 8, 3)]
# Tiles of 128 x 256 and 64 deep: whole ones, and parts of them at every edge.
TILES = [(1024, 256, 64), (300, 400, 72), (130, 520, 200), (129, 200, 8)]


@pytest.mark.parametrize("pad", [0, 8, 3])
@pytest.mark.parametrize("activation", [NON, RELU])
@pytest.mark.parametrize(("batch", "n", "m"), WIDTHS)
@pytest.mark.parametrize("real", HALVES, ids=lambda r: r.name)
def test_linear_in_16_bits(rng, assert_close, real, batch, n, m, activation, pad):
    x, dy = (stored(real, rng, batch, width, pad=pad) for width in (n, m))
    w, b = stored(real, rng, n, m), stored(real, rng, m)
    y, dz = (stored(real, rng, batch, m, pad=pad) for _ in range(2))
    dx = stored(real, rng, batch, n, pad=pad)
    _core.run_op("linear_fwd", {"x": x, "w": w, "b": b, "y": y}, {"activation": activation})
    wanted = formula(real.values(x), real.values(w), real.values(b), activation)
    assert_close(real.values(y), wanted, tolerance=real.tolerance)

    dw, db = np.zeros((n, m), np.float32), np.zeros(m, np.float32)
    tensors = {"x": x, "w": w, "y": y, "dy": dy, "dz": dz, "dx": dx, "dw": dw, "db": db}
    tensors["partial"] = np.full((partial_rows(batch), m), np.nan, np.float32)
    _core.run_op("linear_bwd", tensors, {"activation": activation})
    wanted_dz = real.values(dy)
    if activation == RELU:
        wanted_dz = wanted_dz * (real.values(y) > 0)
    assert_close(real.values(dx), wanted_dz @ real.values(w).T, tolerance=real.tolerance)
    assert_close(dw, real.values(x).T @ wanted_dz)
    assert_sums_close(db, wanted_dz)


@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("w_begins", [0, 429, 3])
@pytest.mark.parametrize("pad", [0, 8, 3])
@pytest.mark.parametrize("activation", [NON, RELU])
@pytest.mark.parametrize(("batch", "n", "m"), [*WIDTHS, (300, 1024, 1), (90, 17, 1)])
@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
def test_linear_adds_to_what_other_columns_gave(
    rng, assert_close, real, batch, n, m, activation, pad, w_begins, with_bias
):
    """``addend``, with w as some rows of a larger one."""
    x, addend = stored(real, rng, batch, n, pad=pad), stored(real, rng, batch, m, pad=pad)
    w, b = stored(real, rng, w_begins + n, m)[w_begins:], stored(real, rng, m)
    y = real.empty((batch, m + pad))[:, :m]
    tensors = {"x": x, "w": w, "addend": addend, "b": b if with_bias else None, "y": y}
    before = addend.copy()
    _core.run_op("linear_fwd", tensors, {"activation": activation})
    bias = real.values(b) if with_bias else 0.0
    wanted = formula(real.values(x), real.values(w), real.values(addend) + bias, activation)
    assert_close(real.values(y), wanted, tolerance=real.tolerance)
    np.testing.assert_array_equal(addend, before)


@pytest.mark.parametrize("real", HALVES, ids=lambda r: r.name)
def test_more_tiles_than_a_gpu_makes_at_once(rng, assert_close, real):
    """Blocks take tiles from a counter, and leave it as they found it: twice the same bits."""
    batch, n, m = 60_000, 256, 8
    x, w, dy = (stored(real, rng, *shape) for shape in ((batch, n), (n, m), (batch, m)))
    x[...] = real.store(relu(real.values(x)))
    found = []
    for _ in range(2):
        dz, dx = real.empty((batch, m)), real.store(np.full((batch, n), np.nan))
        dw, db_below = np.zeros((n, m), np.float32), np.zeros(n, np.float32)
        tensors = {"x": x, "w": w, "y": dy, "dy": dy, "dz": dz, "dx": dx, "dw": dw}
        tensors |= {"db_below": db_below}
        tensors["partial_below"] = np.full((partial_rows(batch), n), np.nan, np.float32)
        _core.run_op("linear_bwd", tensors, {"activation": NON, "below": RELU})
        found.append((dx, db_below))
    wanted = np.where(real.values(x) <= 0, 0, real.values(dy) @ real.values(w).T)
    assert_close(real.values(found[0][0]), wanted, tolerance=real.tolerance)
    assert_sums_close(found[0][1], wanted, 0.0, real.tolerance)
    for first, second in zip(*found, strict=True):
        assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("pad", [0, 8, 3])
@pytest.mark.parametrize("activation", [NON, RELU])
@pytest.mark.parametrize(("batch", "n", "m"), WIDTHS + TILES)
@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
def test_linear_bwd_through_the_relu_below(
    rng, assert_close, real, batch, n, m, activation, pad, overwrite
):
    x, y = (stored(real, rng, batch, width, pad=pad) for width in (n, m))
    for relu_result in (x, y):
        relu_result[...] = real.store(relu(real.values(relu_result)))
    x[3, 2] = real.store(np.nan)  # passes back as it passed forward
    w, dy = stored(real, rng, n, m), stored(real, rng, batch, m, pad=pad)
    x[:, n - 1] = 0
    dz, dx = stored(real, rng, batch, m, pad=pad), stored(real, rng, batch, n, pad=pad)
    start = np.nan if overwrite else 0.5
    dw = np.full((n, m), start, np.float32)
    db, db_below = np.full(m, start, np.float32), np.full(n, start, np.float32)
    tensors = {"x": x, "w": w, "y": y, "dy": dy, "dz": dz, "dx": dx}
    tensors |= {"dw": dw, "db": db, "db_below": db_below}
    tensors["partial"] = np.full((partial_rows(batch), m), np.nan, np.float32)
    tensors["partial_below"] = np.full((partial_rows(batch), n), np.nan, np.float32)
    attributes = {"activation": activation, "below": RELU}
    attributes |= {"overwrite": overwrite, "overwrite_below": overwrite}
    _core.run_op("linear_bwd", tensors, attributes)

    wanted_dz = real.values(dy)
    if activation == RELU:
        wanted_dz = wanted_dz * (real.values(y) > 0)
    wanted_dx = np.where(real.values(x) <= 0, 0, wanted_dz @ real.values(w).T)
    assert_close(real.values(dx), wanted_dx, tolerance=real.tolerance)
    np.testing.assert_array_equal(real.values(dx)[real.values(x) == 0], 0)
    terms = np.linalg.norm(wanted_dz[3] * real.values(w)[2])
    assert_close(real.values(dx)[3, 2], wanted_dx[3, 2], "of the NaN", real.tolerance, terms)
    before = 0.0 if overwrite else start
    assert_sums_close(db, wanted_dz, before)
    assert_sums_close(db_below, wanted_dx, before, real.tolerance)
    used = np.arange(n) != 2  # the column of the NaN
    wanted_dw = real.values(x)[:, used].T @ wanted_dz
    assert_close(dw[used], wanted_dw + before)


@pytest.mark.parametrize("activation", [NON, RELU])
@pytest.mark.parametrize(("batch", "n", "m"), [(300, 13, 64), (257, 429, 40), (400, 29, 1)])
@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
def test_linear_with_padded_rows(rng, assert_close, real, batch, n, m, activation):
    whole = (n + 7) // 8 * 8
    wide_x, wide_dx = (np.zeros((batch, whole)) for _ in range(2))
    wide_x[:, :n] = rng.standard_normal((batch, n))
    x, dx = real.store(wide_x)[:, :n], real.store(wide_dx + np.nan)[:, :n]
    w, b = stored(real, rng, n, m), stored(real, rng, m)
    y, dy, dz = (stored(real, rng, batch, m) for _ in range(3))
    attributes = {"activation": activation, "padded": True}
    _core.run_op("linear_fwd", {"x": x, "w": w, "b": b, "y": y}, attributes)
    wanted = formula(real.values(x), real.values(w), real.values(b), activation)
    assert_close(real.values(y), wanted, tolerance=real.tolerance)
    dw = np.zeros((n, m), np.float32)
    tensors = {"x": x, "w": w, "y": y, "dy": dy, "dz": dz, "dx": dx, "dw": dw}
    _core.run_op("linear_bwd", tensors, {**attributes, "dx_padded": True})
    wanted_dz = real.values(dy) * ((real.values(y) > 0) if activation == RELU else 1)
    assert_close(real.values(dx), wanted_dz @ real.values(w).T, tolerance=real.tolerance)
    assert_close(dw, real.values(x).T @ wanted_dz)


@pytest.mark.parametrize("m", [1, 40])
@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
def test_relu_of_linear_keeps_nan(rng, real, m):
    x, w, b = stored(real, rng, 300, 24), stored(real, rng, 24, m), stored(real, rng, m)
    x[5, 3] = real.store(np.nan)
    y = real.empty((300, m))
    _core.run_op("linear_fwd", {"x": x, "w": w, "b": b, "y": y}, {"activation": RELU})
    wanted = np.zeros((300, m), bool)
    wanted[5] = True
    np.testing.assert_array_equal(np.isnan(real.values(y)), wanted)


@pytest.mark.parametrize("m", [1, 3, 64])
@pytest.mark.parametrize("real", REALS, ids=lambda r: r.name)
def test_nan_passes_the_relu_of_a_linear_backward(rng, real, m):
    """A result that is NaN has its gradient passed on: into dz, the bias, the weights and dx."""
    x, w, dy = (stored(real, rng, *shape) for shape in ((300, 24), (24, m), (300, m)))
    y = stored(real, rng, 300, m)
    y[...] = real.store(relu(real.values(y)))
    y[5] = real.store(np.nan)
    dy[5] = real.store(np.nan)  # as a loss of NaN has it
    dz, dx = real.empty((300, m)), real.empty((300, 24))
    dw, db = np.zeros((24, m), np.float32), np.zeros(m, np.float32)
    tensors = {"x": x, "w": w, "y": y, "dy": dy, "dz": dz, "dx": dx, "dw": dw, "db": db}
    tensors["partial"] = np.full((partial_rows(300), m), np.nan, np.float32)
    _core.run_op("linear_bwd", tensors, {"activation": RELU})
    assert np.isnan(real.values(dx)[5]).all()
    assert np.isfinite(np.delete(real.values(dx), 5, axis=0)).all()
    assert np.isnan(db).all()
    assert np.isnan(dw).all()


def test_linear_says_what_padding_needs():
    x, w, y = (np.zeros(shape, np.float32) for shape in ((4, 3), (3, 5), (4, 5)))
    with pytest.raises(ValueError, match=r"x of shape \(4, 3\).* has no room for rows of 8"):
        _core.run_op("linear_fwd", {"x": x, "w": w, "y": y}, {"padded": True})


def test_linear_names_what_is_missing():
    x, w, y = (np.zeros(shape, np.float32) for shape in ((4, 3), (2, 5), (4, 5)))
    with pytest.raises(ValueError, match=r"linear_fwd: w has shape \(2, 5\)"):
        _core.run_op("linear_fwd", {"x": x, "w": w, "y": y})
    w = np.zeros((3, 5), np.float32)
    with pytest.raises(ValueError, match=r"linear_fwd: addend has shape \(4, 3\)"):
        _core.run_op("linear_fwd", {"x": x, "w": w, "addend": x, "y": y})
    with pytest.raises(ValueError, match="needs the tensors y and dz"):
        _core.run_op("linear_bwd", {"x": x, "w": w, "dy": y, "dw": w}, {"activation": RELU})
