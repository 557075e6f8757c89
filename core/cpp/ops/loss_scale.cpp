// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/loss_scale.hpp"

#include <atomic>
#include <cstring>

#include "core/cpp/base/half.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/row_spans.hpp"

namespace hugectr {
namespace {

void check_count(const char* name, const TensorRef& ref) {
  HCTR_CHECK(ref.dtype == TensorScalarType::Int64 && ref.size() == 1, LossScaleStep::kName, ": ",
             name, " must hold one int64, found ", to_string(ref.dtype), " ", to_string(ref.shape));
}

// All bits of the exponent set: infinite or not a number.
bool overflows(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return (bits & 0x7f800000u) == 0x7f800000u;
}
bool overflows(Float16 value) { return (value.bits & 0x7c00u) == 0x7c00u; }
bool overflows(BFloat16 value) { return (value.bits & 0x7f80u) == 0x7f80u; }

template <class T>
void look(const OpContext& ctx, const TensorRef& x, std::atomic<bool>& found) {
  for_each_span(*ctx.pool, x.rows(), x.row_size(), x.contiguous(),
                [&](std::size_t row, std::size_t column, std::size_t count) {
                  const T* values = x.row<T>(row) + column;
                  bool any = false;
                  for (std::size_t i = 0; i < count; ++i) any |= overflows(values[i]);
                  if (any) found = true;
                });
}

void find_overflow_kernel(const OpContext& ctx, const FindOverflow& op) {
  std::atomic<bool> found = false;
  for (const TensorRef& x : op.xs) {
    if (x.dtype == TensorScalarType::Float32) look<float>(ctx, x, found);
    if (x.dtype == TensorScalarType::Float16) look<Float16>(ctx, x, found);
    if (x.dtype == TensorScalarType::BFloat16) look<BFloat16>(ctx, x, found);
  }
  *op.overflow.ptr<float>() = found ? 1.0f : 0.0f;
}

void loss_scale_step_kernel(const OpContext&, const LossScaleStep& op) {
  loss_scale_step(*op.overflow.ptr<float>() > 0.0f, op.dynamic, op.interval, *op.scale.ptr<float>(),
                  *op.unscale.ptr<float>(), *op.good.ptr<std::int64_t>(),
                  *op.skipped.ptr<std::int64_t>());
}

const OpRegistration<FindOverflow> find_overflow_cpu{DeviceType::Cpu, &find_overflow_kernel};
const OpRegistration<LossScaleStep> loss_scale_step_cpu{DeviceType::Cpu, &loss_scale_step_kernel};

}  // namespace

void FindOverflow::check() const {
  for (const TensorRef& x : xs) check_real(kName, "xs", x);
  check_packed_float(kName, "overflow", overflow, {1});
}

void LossScaleStep::check() const {
  check_packed_float(kName, "overflow", overflow, {1});
  check_packed_float(kName, "scale", scale, {1});
  check_packed_float(kName, "unscale", unscale, {1});
  check_count("good", good);
  check_count("skipped", skipped);
  HCTR_CHECK(interval > 0, kName, ": interval is ", interval, ", must be positive");
}

}  // namespace hugectr
