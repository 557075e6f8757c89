// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/sequence_mask.hpp"

#include <algorithm>

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/row_spans.hpp"

namespace hugectr {

void SequenceMask::check() const {
  check_real(kName, "y", y);
  HCTR_CHECK(y.shape.size() == 4 && y.shape[1] == 1, kName, ": y has shape ", to_string(y.shape),
             ", must have (b, 1, max from, max to)");
  check_float(kName, "from", from, {y.shape[0], 1});
  check_float(kName, "to", to, {y.shape[0], 1});
}

namespace {

void sequence_mask_kernel(const OpContext& ctx, const SequenceMask& op) {
  const std::size_t rows = op.y.shape[2], columns = op.y.shape[3];
  parallel_for(*ctx.pool, op.y.rows(), row_grain(rows * columns),
               [&](std::size_t begin, std::size_t end) {
                 for (std::size_t b = begin; b < end; ++b) {
                   const float from = *op.from.row<float>(b), to = *op.to.row<float>(b);
                   float* y = op.y.row<float>(b);
                   for (std::size_t i = 0; i < rows; ++i) {
                     const bool there = static_cast<float>(i) < from;
                     for (std::size_t j = 0; j < columns; ++j) {
                       *y++ = there && static_cast<float>(j) < to ? 1.0f : 0.0f;
                     }
                   }
                 }
               });
}

const OpRegistration<SequenceMask> sequence_mask_cpu{DeviceType::Cpu, &sequence_mask_kernel};

}  // namespace
}  // namespace hugectr
