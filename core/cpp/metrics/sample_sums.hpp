// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string_view>

#include "core/cpp/device/entry_op.hpp"
#include "core/cpp/metrics/entry.hpp"

namespace hugectr {

/// Throws InvalidArgument unless the tensors are as SampleSums wants them.
HCTR_API void check_sample_sums(const char* op, const TensorRef& scores, const TensorRef& labels,
                                const TensorRef& weights, const TensorRef& sums, std::size_t count,
                                bool classes);

/// sums += what the metric adds for each sample of weight other than 0.
///
/// scores: (batch, 1) float32, float16 or bfloat16, or of a metric of classes (batch, n), the
/// logits; labels: (batch, 1) float32; the rows of these may be strided. weights: (batch) float32.
/// sums: (kSums) float64, accumulated. Deterministic: the same with any number of threads.
template <class Entry>
struct HCTR_API SampleSums {
  static constexpr auto kNameText = entry_op_name<Entry>("_sums");
  static constexpr const char* kName = kNameText.data();
  static constexpr std::string_view k16BitFields = "scores";
  TensorRef scores, labels, weights, sums;
  Entry entry;
  void visit(OpVisitor& v) {
    v.tensor("scores", Access::In, scores);
    v.tensor("labels", Access::In, labels);
    v.tensor("weights", Access::In, weights);
    v.tensor("sums", Access::InOut, sums);
    visit_fields(v, entry);
  }
  void check() const {
    check_sample_sums(kName, scores, labels, weights, sums, Entry::kSums, TakesClasses<Entry>);
    check_fields(kName, entry);
  }
};

}  // namespace hugectr
