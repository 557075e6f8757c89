# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from oracle.reals import HALVES

from hugectr import _core

# One tile; many tiles; a row, a column, an outer product; nothing to sum.
SHAPES = [
    (5, 7, 3),
    (1300, 530, 40),
    (300, 200, 700),
    (1, 300, 900),
    (900, 1, 400),
    (40, 60, 1),
    (1, 1, 1),
    (600, 1, 1),
    (4, 3, 0),
]


@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize(("m", "n", "k"), SHAPES)
def test_gemm(rows, rng, assert_close, m, n, k, transpose_a, transpose_b):
    a = rows((k, m) if transpose_a else (m, k))
    b = rows((n, k) if transpose_b else (k, n))
    before = rng.standard_normal((m, n)).astype(np.float32)
    product = (a.T if transpose_a else a).astype(np.float64) @ (b.T if transpose_b else b)
    attributes = {"transpose_a": transpose_a, "transpose_b": transpose_b}

    c = rows(np.full((m, n), np.nan))  # beta 0 must not read it
    _core.run_op("gemm", {"a": a, "b": b, "c": c}, attributes)
    assert_close(c, product)

    c = rows(before)
    _core.run_op("gemm", {"a": a, "b": b, "c": c}, {**attributes, "alpha": 0.5, "beta": -2.0})
    parts = 0.5 * product, -2.0 * before  # which may cancel
    assert_close(c, sum(parts), scale=sum(np.linalg.norm(part) for part in parts))


@pytest.mark.parametrize("pad", [0, 8, 3])
@pytest.mark.parametrize(
    ("transpose_a", "transpose_b"), [(False, False), (True, False), (False, True)]
)
@pytest.mark.parametrize(("m", "n", "k"), [(72, 48, 64), (130, 29, 13), (7, 1, 300), (4, 3, 0)])
@pytest.mark.parametrize("real", HALVES, ids=lambda r: r.name)
def test_gemm_in_16_bits(rng, assert_close, real, m, n, k, transpose_a, transpose_b, pad):
    def stored(rows, columns):
        return real.store(rng.standard_normal((rows, columns + pad)))[:, :columns]

    a = stored(k, m) if transpose_a else stored(m, k)
    b = stored(n, k) if transpose_b else stored(k, n)
    c = stored(m, n)
    before = real.values(c)
    attributes = {"transpose_a": transpose_a, "transpose_b": transpose_b, "beta": 0.5}
    _core.run_op("gemm", {"a": a, "b": b, "c": c}, attributes)
    wide_a, wide_b = (real.values(x) for x in (a, b))
    product = (wide_a.T if transpose_a else wide_a) @ (wide_b.T if transpose_b else wide_b)
    assert_close(real.values(c), product + 0.5 * before, tolerance=real.tolerance)


def test_gemm_leaves_what_is_beside_strided_rows_alone(rng):
    wide = np.full((700, 12), 3.0, np.float32)
    a, b = rng.standard_normal((700, 5), np.float32), rng.standard_normal((5, 6), np.float32)
    _core.run_op("gemm", {"a": a, "b": b, "c": wide[:, 4:10]})
    assert (wide[:, :4] == 3.0).all()
    assert (wide[:, 10:] == 3.0).all()


def test_gemm_names_shapes_that_do_not_fit():
    a, b, c = (np.zeros(shape, np.float32) for shape in ((4, 3), (2, 5), (4, 5)))
    with pytest.raises(ValueError, match=r"\(4, 3\).*\(2, 5\).*\(4, 5\)"):
        _core.run_op("gemm", {"a": a, "b": b, "c": c})
