// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/dropout.hpp"

#include <algorithm>

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/row_spans.hpp"

namespace hugectr {
namespace {

void check_scalar(const char* op, const char* name, const TensorRef& ref) {
  HCTR_CHECK(ref.dtype == TensorScalarType::Int64 && ref.size() == 1, op, ": ", name,
             " must hold one int64, found ", to_string(ref.dtype), " ", to_string(ref.shape));
}

void check_dropout(const char* op, const char* in_name, const TensorRef& in, const char* out_name,
                   const TensorRef& out, const TensorRef& step, const TensorRef& first_sample,
                   double rate) {
  check_real(op, in_name, in);
  check_real(op, out_name, out, in.dtype, in.shape);
  check_scalar(op, "step", step);
  check_scalar(op, "first_sample", first_sample);
  HCTR_CHECK(rate >= 0.0 && rate < 1.0, op, ": rate is ", rate, ", must be in [0, 1)");
}

}  // namespace

void DropoutFwd::check() const { check_dropout(kName, "x", x, "y", y, step, first_sample, rate); }

void DropoutBwd::check() const {
  check_dropout(kName, "dy", dy, "dx", dx, step, first_sample, rate);
}

namespace {

using Words = std::uint32_t[kDropoutLanes];

// philox4x32 of kDropoutLanes neighbouring counters, lane by lane, in a form that vectorises.
void philox_lanes(std::uint64_t key, std::uint64_t counter, std::uint64_t sample, Words (&x)[4]) {
  for (std::size_t lane = 0; lane < kDropoutLanes; ++lane) {
    x[0][lane] = static_cast<std::uint32_t>(counter + lane);
    x[1][lane] = static_cast<std::uint32_t>((counter + lane) >> 32);
    x[2][lane] = static_cast<std::uint32_t>(sample);
    x[3][lane] = static_cast<std::uint32_t>(sample >> 32);
  }
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    for (std::size_t lane = 0; lane < kDropoutLanes; ++lane) {
      const std::uint64_t p0 = 0xD2511F53ull * x[0][lane];
      const std::uint64_t p1 = 0xCD9E8D57ull * x[2][lane];
      x[0][lane] = static_cast<std::uint32_t>(p1 >> 32) ^ x[1][lane] ^ k0;
      x[1][lane] = static_cast<std::uint32_t>(p1);
      x[2][lane] = static_cast<std::uint32_t>(p0 >> 32) ^ x[3][lane] ^ k1;
      x[3][lane] = static_cast<std::uint32_t>(p0);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

// 1 / (1 - rate) for kept units, 0 for dropped ones, for one block of units.
void dropout_scales(std::uint64_t key, std::size_t block, std::uint64_t sample,
                    std::uint32_t threshold, float scale, float (&scales)[kDropoutBlock]) {
  Words words[4];
  philox_lanes(key, block * kDropoutLanes, sample, words);
  for (std::size_t word = 0; word < 4; ++word) {
    float* low = scales + 2 * word * kDropoutLanes;
    float* high = low + kDropoutLanes;
    for (std::size_t lane = 0; lane < kDropoutLanes; ++lane) {
      const std::uint32_t bits = words[word][lane];
      low[lane] = (bits & 0xFFFFu) < threshold ? 0.0f : scale;
      high[lane] = (bits >> 16) < threshold ? 0.0f : scale;
    }
  }
}

template <class Op>
void apply_dropout(ThreadPool& pool, const Op& op, const TensorRef& in, const TensorRef& out) {
  const std::uint64_t key = dropout_key(op.seed, op.layer, *op.step.template ptr<std::int64_t>());
  const auto first = static_cast<std::uint64_t>(*op.first_sample.template ptr<std::int64_t>() *
                                                op.rows_per_sample);
  const std::uint32_t threshold = dropout_threshold(op.rate);
  const auto scale = static_cast<float>(1.0 / (1.0 - op.rate));
  const std::size_t units = in.row_size();
  parallel_for(pool, in.rows(), row_grain(units), [&](std::size_t begin, std::size_t end) {
    float scales[kDropoutBlock];
    for (std::size_t row = begin; row < end; ++row) {
      const float* x = in.row<float>(row);
      float* y = out.row<float>(row);
      for (std::size_t unit = 0; unit < units; unit += kDropoutBlock) {
        dropout_scales(key, unit / kDropoutBlock, first + row, threshold, scale, scales);
        const std::size_t count = std::min(kDropoutBlock, units - unit);
        // A select instead of a product: a dropped NaN or infinity must give 0.
        for (std::size_t j = 0; j < count; ++j) {
          y[unit + j] = scales[j] == 0.0f ? 0.0f : x[unit + j] * scales[j];
        }
      }
    }
  });
}

void dropout_fwd_kernel(const OpContext& ctx, const DropoutFwd& op) {
  apply_dropout(*ctx.pool, op, op.x, op.y);
}

void dropout_bwd_kernel(const OpContext& ctx, const DropoutBwd& op) {
  apply_dropout(*ctx.pool, op, op.dy, op.dx);
}

const OpRegistration<DropoutFwd> dropout_fwd_cpu{DeviceType::Cpu, &dropout_fwd_kernel};
const OpRegistration<DropoutBwd> dropout_bwd_cpu{DeviceType::Cpu, &dropout_bwd_kernel};

}  // namespace
}  // namespace hugectr
