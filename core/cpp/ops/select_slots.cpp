// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/select_slots.hpp"

#include <cstring>

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/row_spans.hpp"

namespace hugectr {
namespace {

void check_slots(const char* op, const TensorRef& x, const TensorRef& y,
                 const std::vector<std::int64_t>& slots) {
  check_real(op, "the tensor with all slots", x);
  HCTR_CHECK(x.shape.size() == 3, op, ": the tensor with all slots has shape ", to_string(x.shape),
             ", must be (batch, slots, dim)");
  check_real(op, "the tensor with the picked slots", y, x.dtype,
             {x.shape[0], slots.size() * x.shape[2]});
  for (const std::int64_t slot : slots) {
    HCTR_CHECK(slot >= 0 && static_cast<std::size_t>(slot) < x.shape[1], op, ": slot ", slot,
               " is not in [0, ", x.shape[1], ")");
  }
}

}  // namespace

void SelectSlotsFwd::check() const { check_slots(kName, x, y, slots); }
void SelectSlotsBwd::check() const { check_slots(kName, dx, dy, slots); }

namespace {

void select_slots_fwd_kernel(const OpContext& ctx, const SelectSlotsFwd& op) {
  const std::size_t dim = op.x.shape[2];
  parallel_for(*ctx.pool, op.x.rows(), row_grain(op.y.row_size()),
               [&](std::size_t begin, std::size_t end) {
                 for (std::size_t row = begin; row < end; ++row) {
                   const float* x = op.x.row<float>(row);
                   float* y = op.y.row<float>(row);
                   for (std::size_t i = 0; i < op.slots.size(); ++i) {
                     std::memcpy(y + i * dim, x + static_cast<std::size_t>(op.slots[i]) * dim,
                                 dim * sizeof(float));
                   }
                 }
               });
}

void select_slots_bwd_kernel(const OpContext& ctx, const SelectSlotsBwd& op) {
  const std::size_t dim = op.dx.shape[2];
  const std::size_t row_size = op.dx.row_size();
  parallel_for(*ctx.pool, op.dx.rows(), row_grain(row_size),
               [&](std::size_t begin, std::size_t end) {
                 for (std::size_t row = begin; row < end; ++row) {
                   const float* __restrict dy = op.dy.row<float>(row);
                   float* __restrict dx = op.dx.row<float>(row);
                   std::memset(dx, 0, row_size * sizeof(float));
                   for (std::size_t i = 0; i < op.slots.size(); ++i) {
                     float* __restrict to = dx + static_cast<std::size_t>(op.slots[i]) * dim;
                     for (std::size_t j = 0; j < dim; ++j) to[j] += dy[i * dim + j];
                   }
                 }
               });
}

const OpRegistration<SelectSlotsFwd> select_slots_fwd_cpu{DeviceType::Cpu,
                                                          &select_slots_fwd_kernel};
const OpRegistration<SelectSlotsBwd> select_slots_bwd_cpu{DeviceType::Cpu,
                                                          &select_slots_bwd_kernel};

}  // namespace
}  // namespace hugectr
