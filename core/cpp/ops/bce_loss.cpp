// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/bce_loss.hpp"

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/partial_sums.hpp"

namespace hugectr {

void BceLoss::check() const {
  check_real(kName, "logits", logits);
  HCTR_CHECK(logits.shape.size() == 2 && logits.shape[1] == 1, kName, ": logits have shape ",
             to_string(logits.shape), ", must be (batch, 1)");
  check_float(kName, "labels", labels, logits.shape);
  check_packed_float(kName, "weight", weight, {logits.rows()});
  check_packed_float(kName, "inv_weight_sum", inv_weight_sum, {1});
  if (!loss_scale.empty()) check_packed_float(kName, "loss_scale", loss_scale, {1});
  check_packed_float(kName, "loss", loss, {1});
  if (!dlogits.empty()) check_real(kName, "dlogits", dlogits, logits.dtype, logits.shape);
  if (!prediction.empty()) check_float(kName, "prediction", prediction, logits.shape);
  HCTR_CHECK(partial.dtype == TensorScalarType::Float64 &&
                 partial.shape == Shape{partial_rows(logits.rows())},
             kName, ": partial must be float64 of shape ",
             to_string(Shape{partial_rows(logits.rows())}), ", found ", to_string(partial.dtype),
             " ", to_string(partial.shape));
}

namespace {

void bce_loss_kernel(const OpContext& ctx, const BceLoss& op) {
  const float inv_weight_sum = *op.inv_weight_sum.ptr<float>();
  const float loss_scale = op.loss_scale.empty() ? 1.0f : *op.loss_scale.ptr<float>();
  const float gradient_factor = static_cast<float>(op.grad_scale) * loss_scale * inv_weight_sum;
  const float* weight = op.weight.ptr<float>();
  double* partial = op.partial.ptr<double>();
  const std::size_t piece = samples_per_partial(op.logits.rows());
  parallel_for(*ctx.pool, op.logits.rows(), piece, [&](std::size_t begin, std::size_t end) {
    double sum = 0.0;
    for (std::size_t r = begin; r < end; ++r) {
      const float x = *op.logits.row<float>(r);
      const float y = *op.labels.row<float>(r);
      const float w = weight[r];
      const float p = sigmoid(x);
      if (w != 0.0f) sum += static_cast<double>(w * bce_value(x, y));
      if (!op.dlogits.empty()) {
        *op.dlogits.row<float>(r) = w != 0.0f ? gradient_factor * w * bce_gradient(x, y) : 0.0f;
      }
      if (!op.prediction.empty()) *op.prediction.row<float>(r) = p;
    }
    partial[begin / piece] = sum;
  });
  double total = 0.0;
  for (std::size_t i = 0; i < op.partial.rows(); ++i) total += partial[i];
  *op.loss.ptr<float>() = static_cast<float>(total * static_cast<double>(inv_weight_sum));
}

const OpRegistration<BceLoss> bce_loss_cpu{DeviceType::Cpu, &bce_loss_kernel};

}  // namespace
}  // namespace hugectr
