// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/embedding_gradient.hpp"

#include "core/cpp/device/several.hpp"
#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_csr.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/run_blocks.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kGradientGrain = 512;  // runs of a piece

void embedding_gradient_kernel(const OpContext& context, const EmbeddingGradient& op) {
  float* sums = op.sums.ptr<float>();
  const std::size_t d = op.sums.shape[1];
  parallel_for(
      *context.pool, op.sums.shape[0], kGradientGrain, [&](std::size_t begin, std::size_t end) {
        RunBlocks blocks(op.sorted_buckets, op.gradient, op.scale, op.run_offsets, begin, end);
        blocks.sum(begin, end, static_cast<float>(op.factor), sums + begin * d);
      });
}

const OpRegistration<EmbeddingGradient> embedding_gradient_cpu{DeviceType::Cpu,
                                                               &embedding_gradient_kernel};
const SeveralRegistration<EmbeddingGradient> several_embedding_gradient_cpu{DeviceType::Cpu};

}  // namespace

void EmbeddingGradient::check() const {
  constexpr auto kUInt32 = TensorScalarType::UInt32;
  check_real(kName, "gradient", gradient);
  HCTR_CHECK(gradient.shape.size() == 3 && gradient.shape[2] <= kMaxRunVecSize, kName,
             ": gradient has shape ", to_string(gradient.shape),
             ", must be (samples, slots, d) with d at most ", kMaxRunVecSize);
  check_real(kName, "sums", sums);
  HCTR_CHECK(sums.shape.size() == 2 && sums.shape[1] == gradient.shape[2] && sums.contiguous(),
             kName, ": sums have shape ", to_string(sums.shape), ", must be (runs, ",
             gradient.shape[2], "), one row after the other");
  check_array_at_least(kName, "sorted_buckets", sorted_buckets, kUInt32, sums.shape[0]);
  check_array_at_least(kName, "run_offsets", run_offsets, kUInt32, sums.shape[0] + 1);
  if (!scale.empty()) {
    check_array(kName, "scale", scale, TensorScalarType::Float32,
                gradient.shape[0] * gradient.shape[1]);
  }
}

}  // namespace hugectr
