// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <concepts>
#include <cstddef>

#include "core/cpp/base/export.hpp"
#include "core/cpp/base/fields.hpp"
#include "core/cpp/device/op.hpp"

/// What a metric of the catalogue says of itself. An entry is a small struct that derives from its
/// Fields<...> and has
///
///   static constexpr const char* kName;  // what users know: "LogLoss"
///   static constexpr const char* kDoc;   // one line
///
/// and is of one of three kinds, by what it adds up. A sample is its score (the logit: the log-odds
/// that the label is 1, or of a regression the value), its label and its weight. Padding and
/// skipped samples, of weight 0, are left out.
///
///   static constexpr bool kOfPredictions = true;  // scores are what the loss predicts by them
///   static constexpr bool kNeedsProbability = true;  // not of a regression
///   static constexpr bool kTakesGroups = true;  // of all samples: they have groups
///
/// Sums over samples, on the devices; merged by adding up:
///   static constexpr const char* kOp;           // stem of its op: "log_loss" makes log_loss_sums
///   static constexpr std::size_t kSums;
///   HCTR_HD void add(float score, float label, float weight, double* sums) const;
///   double value(const double* sums) const;     // of all samples; NaN or infinity where undefined
///
/// Sums over batches, on the host, of what the whole job knows already:
///   static constexpr std::size_t kSums;
///   void add_batch(double loss, double samples, double* sums) const;  // mean loss of so many
///   double value(const double* sums) const;
///
/// All samples, kept on the devices; merged by putting them together on one:
///   // `samples` hold n float32 each; value: (1) float64
///   static AnyOp value(const SampleArrays& samples, const TensorRef& value);
namespace hugectr {

/// Scores, labels and weights of n samples: (n) float32 each, contiguous, on one device.
struct SampleArrays {
  TensorRef scores, labels, weights;
  TensorRef groups{};  ///< empty unless the metric takes them
};

/// Sums over samples.
template <class Entry>
concept SumsSamples = requires(const Entry entry, double* sums) {
  entry.add(0.0f, 0.0f, 0.0f, sums);
  { entry.value(sums) } -> std::same_as<double>;
  { Entry::kSums } -> std::convertible_to<std::size_t>;
};

/// Sums over batches.
template <class Entry>
concept SumsBatches = requires(const Entry entry, double* sums) {
  entry.add_batch(0.0, 0.0, sums);
  { entry.value(sums) } -> std::same_as<double>;
  { Entry::kSums } -> std::convertible_to<std::size_t>;
};

/// All samples.
template <class Entry>
concept KeepsSamples = requires(const SampleArrays& samples, const TensorRef& value) {
  { Entry::value(samples, value) } -> std::same_as<AnyOp>;
};

template <class Entry>
concept OfPredictions = requires { requires Entry::kOfPredictions; };
template <class Entry>
concept NeedsProbability = requires { requires Entry::kNeedsProbability; };
template <class Entry>
concept TakesGroups = requires { requires Entry::kTakesGroups; };

}  // namespace hugectr
