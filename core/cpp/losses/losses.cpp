// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/losses/losses.hpp"

#include "core/cpp/device/thread_pool.hpp"
#include "core/cpp/ops/loops/check_tensor.hpp"
#include "core/cpp/ops/loops/partial_sums.hpp"

namespace hugectr {

void check_loss(const char* op, const LossTensors& t, bool classes, bool pairs,
                const std::vector<double>& target_weights) {
  check_real(op, "logits", t.logits);
  const std::size_t n = t.logits.shape.size() == 2 ? t.logits.shape[1] : 0;
  const bool fits =
      pairs ? n >= 1 && n <= kMostLabels : (classes ? n >= 2 && n < (1u << 24) : n == 1);
  HCTR_CHECK(fits, op, ": logits have shape ", to_string(t.logits.shape), ", must be (batch, ",
             pairs ? concat("labels), at most ", kMostLabels)
                   : std::string(classes ? "classes), at least 2" : "1)"));
  HCTR_CHECK(target_weights.empty() || target_weights.size() == n, op, ": there are ",
             target_weights.size(), " target weights, must be one for each of the ", n, " labels");
  const Shape one_column{t.logits.rows(), 1};
  check_float(op, "labels", t.labels, classes ? one_column : t.logits.shape);
  check_packed_float(op, "weight", t.weight, {t.logits.rows()});
  check_packed_float(op, "inv_weight_sum", t.inv_weight_sum, {1});
  if (!t.loss_scale.empty()) check_packed_float(op, "loss_scale", t.loss_scale, {1});
  check_packed_float(op, "loss", t.loss, {1});
  if (!t.dlogits.empty()) check_real(op, "dlogits", t.dlogits, t.logits.dtype, t.logits.shape);
  if (!t.prediction.empty()) check_float(op, "prediction", t.prediction, t.logits.shape);
  if (!t.score.empty()) {
    check_float(op, "score", t.score, one_column);
    HCTR_CHECK(n == 2, op, ": there is a score of two classes, but there are ", n);
  }
  const Shape pieces{partial_rows(t.logits.rows())};
  HCTR_CHECK(t.partial.dtype == TensorScalarType::Float64 && t.partial.shape == pieces, op,
             ": partial must be float64 of shape ", to_string(pieces), ", found ",
             to_string(t.partial.dtype), " ", to_string(t.partial.shape));
}

std::string to_string(Prediction kind) {
  switch (kind) {
    case Prediction::Sigmoid:
      return "sigmoid";
    case Prediction::Identity:
      return "identity";
    case Prediction::Softmax:
      break;
  }
  return "softmax";
}

void predict_row(Prediction kind, float* logits, std::size_t columns) {
  if (kind == Prediction::Sigmoid) {
    for (std::size_t j = 0; j < columns; ++j) logits[j] = sigmoid(logits[j]);
  } else if (kind == Prediction::Softmax) {
    const SoftmaxTerms terms = softmax_terms(columns, [&](std::size_t j) { return logits[j]; });
    for (std::size_t j = 0; j < columns; ++j) logits[j] = terms.probability(logits[j]);
  }
}

std::vector<LossDescription> describe_losses() {
  std::vector<LossDescription> all;
  for_each_entry<Losses>([&]<class Entry>(const Entry& entry) {
    all.push_back({{Entry::kName, Entry::kDoc, describe_fields(entry)},
                   Entry::kOp,
                   Entry::kLeastLabel,
                   Entry::kMostLabel,
                   to_string(Entry::kPrediction)});
  });
  return all;
}

namespace {

/// Weight of each pair: its target weight's part of the mean over them.
std::vector<float> pair_weights(std::size_t n, const std::vector<double>& target_weights) {
  std::vector<float> shares(n, static_cast<float>(1.0 / static_cast<double>(n)));
  for (std::size_t j = 0; j < target_weights.size(); ++j) {
    shares[j] = static_cast<float>(target_weights[j] / static_cast<double>(n));
  }
  return shares;
}

template <class Entry>
void loss_kernel(const OpContext& ctx, const CatalogueLoss<Entry>& op) {
  const LossTensors& t = op;
  const Entry entry = op.entry;
  const std::size_t n = t.logits.shape[1];
  const std::vector<float> shares = pair_weights(n, op.target_weights);
  const float inv_weight_sum = *t.inv_weight_sum.ptr<float>();
  const float loss_scale = t.loss_scale.empty() ? 1.0f : *t.loss_scale.ptr<float>();
  const float gradient_factor = static_cast<float>(op.grad_scale) * loss_scale * inv_weight_sum;
  const float* weight = t.weight.ptr<float>();
  double* partial = t.partial.ptr<double>();
  const std::size_t piece = samples_per_partial(t.logits.rows());
  parallel_for(*ctx.pool, t.logits.rows(), piece, [&](std::size_t begin, std::size_t end) {
    double sum = 0.0;
    for (std::size_t r = begin; r < end; ++r) {
      const float* x = t.logits.row<float>(r);
      const float* y = t.labels.row<float>(r);
      const float w = weight[r];
      float* dlogits = t.dlogits.empty() ? nullptr : t.dlogits.row<float>(r);
      float* prediction = t.prediction.empty() ? nullptr : t.prediction.row<float>(r);
      if constexpr (OfClasses<Entry>) {
        if (!t.score.empty()) *t.score.row<float>(r) = x[1] - x[0];
      }
      const float value = loss_of_sample(
          entry, n, [&](std::size_t j) { return x[j]; }, [&](std::size_t j) { return y[j]; },
          [&](std::size_t j) { return shares[j]; },
          [&](std::size_t j, float gradient, float p) {
            if (dlogits) dlogits[j] = w != 0.0f ? gradient_factor * w * gradient : 0.0f;
            if (prediction) prediction[j] = p;
          });
      if (w != 0.0f) sum += static_cast<double>(w * value);
    }
    partial[begin / piece] = sum;
  });
  double total = 0.0;
  for (std::size_t i = 0; i < t.partial.rows(); ++i) total += partial[i];
  *t.loss.ptr<float>() = static_cast<float>(total * static_cast<double>(inv_weight_sum));
}

template <class Entry>
struct OnCpu {
  OpRegistration<CatalogueLoss<Entry>> loss{DeviceType::Cpu, &loss_kernel<Entry>};
};
const OfEach<OnCpu, Losses> on_cpu;

}  // namespace
}  // namespace hugectr
