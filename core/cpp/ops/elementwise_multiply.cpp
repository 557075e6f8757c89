// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/elementwise_multiply.hpp"

#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/row_spans.hpp"

namespace hugectr {

void ElementwiseMultiplyFwd::check() const {
  check_real(kName, "y", y);
  HCTR_CHECK(!xs.empty(), kName, ": needs at least one x");
  for (const TensorRef& x : xs) check_real(kName, "xs", x, y.dtype, y.shape);
}

void ElementwiseMultiplyBwd::check() const {
  check_real(kName, "dy", dy);
  for (const TensorRef& x : xs) check_real(kName, "xs", x, dy.dtype, dy.shape);
  for (const TensorRef& dx : dxs) check_real(kName, "dxs", dx, dy.dtype, dy.shape);
  const std::size_t expected = wanted.empty() ? xs.size() : wanted.size();
  HCTR_CHECK(dxs.size() == expected, kName, ": ", dxs.size(), " dxs, must be ", expected);
  for (std::size_t k = 0; k < wanted.size(); ++k) {
    HCTR_CHECK(wanted[k] >= (k == 0 ? 0 : wanted[k - 1] + 1) &&
                   wanted[k] < static_cast<std::int64_t>(xs.size()),
               kName, ": wanted[", k, "] is ", wanted[k],
               ", must be an input's number in ascending order");
  }
}

namespace {

// Elements handled in local blocks: products of 256 elements stay in the L1 cache.
constexpr std::size_t kProductBlock = 256;

bool all_contiguous(const std::vector<TensorRef>& refs) {
  return std::all_of(refs.begin(), refs.end(), [](const TensorRef& r) { return r.contiguous(); });
}

void multiply(float* __restrict product, const float* __restrict x, std::size_t n) {
  for (std::size_t j = 0; j < n; ++j) product[j] *= x[j];
}

void multiply_to(float* __restrict out, const float* __restrict a, const float* __restrict b,
                 std::size_t n) {
  for (std::size_t j = 0; j < n; ++j) out[j] = a[j] * b[j];
}

void elementwise_multiply_fwd_kernel(const OpContext& ctx, const ElementwiseMultiplyFwd& op) {
  for_each_span(*ctx.pool, op.y.rows(), op.y.row_size(), op.y.contiguous() && all_contiguous(op.xs),
                [&](std::size_t row, std::size_t column, std::size_t count) {
                  float product[kProductBlock];
                  for (std::size_t begin = column; begin < column + count; begin += kProductBlock) {
                    const std::size_t n = std::min(kProductBlock, column + count - begin);
                    std::copy_n(op.xs[0].row<float>(row) + begin, n, product);
                    for (std::size_t i = 1; i < op.xs.size(); ++i) {
                      multiply(product, op.xs[i].row<float>(row) + begin, n);
                    }
                    std::copy_n(product, n, op.y.row<float>(row) + begin);
                  }
                });
}

// Products before and after every input: dx_i = (dy * x_0 .. x_{i-1}) * (x_{i+1} .. x_last). The
// products behind come first, from the last input to the first.
void backward_block(const ElementwiseMultiplyBwd& op, std::size_t row, std::size_t begin,
                    std::size_t n, std::vector<float>& behind) {
  const std::size_t inputs = op.xs.size();
  const auto x = [&](std::size_t i) { return op.xs[i].row<float>(row) + begin; };
  const float* dy = op.dy.row<float>(row) + begin;
  behind.resize(inputs * kProductBlock);
  std::fill_n(behind.begin() + static_cast<std::ptrdiff_t>((inputs - 1) * kProductBlock), n, 1.0f);
  for (std::size_t i = inputs - 1; i > 0; --i) {
    multiply_to(&behind[(i - 1) * kProductBlock], &behind[i * kProductBlock], x(i), n);
  }
  float before[kProductBlock];
  std::copy_n(dy, n, before);
  std::size_t k = 0;
  for (std::size_t i = 0; i < inputs && k < op.dxs.size(); ++i) {
    if (op.wanted.empty() || static_cast<std::size_t>(op.wanted[k]) == i) {
      multiply_to(op.dxs[k].row<float>(row) + begin, before, &behind[i * kProductBlock], n);
      ++k;
    }
    multiply(before, x(i), n);
  }
}

void elementwise_multiply_bwd_kernel(const OpContext& ctx, const ElementwiseMultiplyBwd& op) {
  const bool flat = op.dy.contiguous() && all_contiguous(op.xs) && all_contiguous(op.dxs);
  for_each_span(*ctx.pool, op.dy.rows(), op.dy.row_size(), flat,
                [&](std::size_t row, std::size_t column, std::size_t count) {
                  thread_local std::vector<float> behind;
                  for (std::size_t begin = column; begin < column + count; begin += kProductBlock) {
                    backward_block(op, row, begin, std::min(kProductBlock, column + count - begin),
                                   behind);
                  }
                });
}

const OpRegistration<ElementwiseMultiplyFwd> elementwise_multiply_fwd_cpu{
    DeviceType::Cpu, &elementwise_multiply_fwd_kernel};
const OpRegistration<ElementwiseMultiplyBwd> elementwise_multiply_bwd_cpu{
    DeviceType::Cpu, &elementwise_multiply_bwd_kernel};

}  // namespace
}  // namespace hugectr
