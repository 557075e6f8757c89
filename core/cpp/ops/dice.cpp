// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/dice.hpp"

#include "core/cpp/ops/loops/batch_sums.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/last_axis.hpp"

namespace hugectr {

void DiceFwd::check() const {
  check_real(kName, "x", x);
  check_real(kName, "y", y, x.dtype, x.shape);
  check_last_axis(kName, {{"x", &x}, {"y", &y}});
  check_columns(kName, last_axis_rows(x).row_size(),
                {{"mean", &mean}, {"mean_low", &mean_low}, {"var", &var}});
}

void DiceBwdSums::check() const {
  check_real(kName, "x", x);
  check_real(kName, "dy", dy, x.dtype, x.shape);
  check_last_axis(kName, {{"x", &x}, {"dy", &dy}});
  const TensorRef rows = last_axis_rows(x);
  const std::size_t n = rows.row_size();
  check_columns(kName, n, {{"mean", &mean}, {"mean_low", &mean_low}, {"var", &var}});
  check_packed_double(kName, "dsums", dsums, {2 * n});
  check_packed_double(kName, "partial", partial, {partial_rows(rows.rows()), 2 * n});
}

void DiceBwd::check() const {
  check_real(kName, "x", x);
  check_real(kName, "dy", dy, x.dtype, x.shape);
  check_real(kName, "dx", dx, x.dtype, x.shape);
  check_last_axis(kName, {{"x", &x}, {"dy", &dy}, {"dx", &dx}});
  check_row_weights(kName, weight, last_axis_rows(x).rows());
  const std::size_t n = last_axis_rows(x).row_size();
  check_columns(kName, n, {{"mean", &mean}, {"mean_low", &mean_low}, {"var", &var}});
  check_packed_double(kName, "sums", sums, {n + 1});
  check_packed_double(kName, "dsums", dsums, {2 * n});
}

namespace {

template <class Op>
auto gradient_through_gate(const Op& op) {
  return [alpha = static_cast<float>(op.alpha)](float dy, float x, float h) {
    return dy * dice_gate_gradient(x, dice_gate(h), alpha);
  };
}

void dice_fwd_kernel(const OpContext& ctx, const DiceFwd& op) {
  normalise_each(ctx, op, [alpha = static_cast<float>(op.alpha)](std::size_t, float x, float h) {
    return dice(x, dice_gate(h), alpha);
  });
}

void dice_bwd_sums_kernel(const OpContext& ctx, const DiceBwdSums& op) {
  sum_gradients(ctx, op, gradient_through_gate(op));
}

void dice_bwd_kernel(const OpContext& ctx, const DiceBwd& op) {
  set_gradients(ctx, op, gradient_through_gate(op),
                [alpha = static_cast<float>(op.alpha)](std::size_t, float dy, float h,
                                                       float inv_deviation, float left) {
                  return dy * dice_slope(dice_gate(h), alpha) + inv_deviation * left;
                });
}

const OpRegistration<DiceFwd> dice_fwd_cpu{DeviceType::Cpu, &dice_fwd_kernel};
const OpRegistration<DiceBwdSums> dice_bwd_sums_cpu{DeviceType::Cpu, &dice_bwd_sums_kernel};
const OpRegistration<DiceBwd> dice_bwd_cpu{DeviceType::Cpu, &dice_bwd_kernel};

}  // namespace
}  // namespace hugectr
