// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/losses/losses.hpp"

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/partial_sums.hpp"

namespace hugectr {

void check_loss(const char* op, const LossTensors& t) {
  check_real(op, "logits", t.logits);
  HCTR_CHECK(t.logits.shape.size() == 2 && t.logits.shape[1] == 1, op, ": logits have shape ",
             to_string(t.logits.shape), ", must be (batch, 1)");
  check_float(op, "labels", t.labels, t.logits.shape);
  check_packed_float(op, "weight", t.weight, {t.logits.rows()});
  check_packed_float(op, "inv_weight_sum", t.inv_weight_sum, {1});
  if (!t.loss_scale.empty()) check_packed_float(op, "loss_scale", t.loss_scale, {1});
  check_packed_float(op, "loss", t.loss, {1});
  if (!t.dlogits.empty()) check_real(op, "dlogits", t.dlogits, t.logits.dtype, t.logits.shape);
  if (!t.prediction.empty()) check_float(op, "prediction", t.prediction, t.logits.shape);
  const Shape pieces{partial_rows(t.logits.rows())};
  HCTR_CHECK(t.partial.dtype == TensorScalarType::Float64 && t.partial.shape == pieces, op,
             ": partial must be float64 of shape ", to_string(pieces), ", found ",
             to_string(t.partial.dtype), " ", to_string(t.partial.shape));
}

std::vector<LossDescription> describe_losses() {
  std::vector<LossDescription> all;
  for_each_entry<Losses>([&]<class Entry>(const Entry& entry) {
    all.push_back({{Entry::kName, Entry::kDoc, describe_fields(entry)},
                   Entry::kOp,
                   Entry::kLeastLabel,
                   Entry::kMostLabel});
  });
  return all;
}

namespace {

template <class Entry>
void loss_kernel(const OpContext& ctx, const PointwiseLoss<Entry>& op) {
  const LossTensors& t = op;
  const Entry entry = op.entry;
  const float inv_weight_sum = *t.inv_weight_sum.ptr<float>();
  const float loss_scale = t.loss_scale.empty() ? 1.0f : *t.loss_scale.ptr<float>();
  const float gradient_factor = static_cast<float>(op.grad_scale) * loss_scale * inv_weight_sum;
  const float* weight = t.weight.ptr<float>();
  double* partial = t.partial.ptr<double>();
  const std::size_t piece = samples_per_partial(t.logits.rows());
  parallel_for(*ctx.pool, t.logits.rows(), piece, [&](std::size_t begin, std::size_t end) {
    double sum = 0.0;
    for (std::size_t r = begin; r < end; ++r) {
      const float x = *t.logits.row<float>(r);
      const float y = *t.labels.row<float>(r);
      const float w = weight[r];
      const float p = sigmoid(x);
      if (w != 0.0f) sum += static_cast<double>(w * entry.value(x, y));
      if (!t.dlogits.empty()) {
        *t.dlogits.row<float>(r) = w != 0.0f ? gradient_factor * w * entry.gradient(x, y) : 0.0f;
      }
      if (!t.prediction.empty()) *t.prediction.row<float>(r) = p;
    }
    partial[begin / piece] = sum;
  });
  double total = 0.0;
  for (std::size_t i = 0; i < t.partial.rows(); ++i) total += partial[i];
  *t.loss.ptr<float>() = static_cast<float>(total * static_cast<double>(inv_weight_sum));
}

template <class Entry>
struct OnCpu {
  OpRegistration<PointwiseLoss<Entry>> loss{DeviceType::Cpu, &loss_kernel<Entry>};
};
const OfEach<OnCpu, Losses> on_cpu;

}  // namespace
}  // namespace hugectr
