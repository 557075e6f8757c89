// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "core/cpp/device/resource_manager.hpp"

namespace hugectr {

/// Collects the scores of evaluation batches of all devices and reduces them to metrics.
/// Padding and skipped samples (weight 0) do not count.
class HCTR_API EvalMetrics {
 public:
  EvalMetrics(bool auc, bool average_loss) : auc_(auc), average_loss_(average_loss) {}

  /// One device's rows of a batch; waits for the device. Shapes (b, 1), (b, 1), (b). Scores are
  /// whatever ranks the samples, in any float type: logits, not probabilities, which saturate.
  void add(GPUResource& gpu, const TensorRef& score, const TensorRef& label,
           const TensorRef& weight);
  /// The loss of a whole batch and the number of samples it is the mean of.
  void add_loss(double loss, double samples);
  /// Metrics of everything since the last call, on all devices of the job (collective): AUC (exact,
  /// ties merged; NaN when only one class was seen), AverageLoss. Then starts anew.
  std::vector<std::pair<std::string, double>> take(ResourceManager& resources);
  void clear();

 private:
  bool auc_, average_loss_;
  std::vector<float> scores_, labels_, weights_;
  double loss_sum_ = 0.0, loss_samples_ = 0.0;
};

}  // namespace hugectr
