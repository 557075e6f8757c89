// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <concepts>
#include <cstddef>

#include "core/cpp/base/export.hpp"
#include "core/cpp/base/fields.hpp"
#include "core/cpp/device/op.hpp"
#include "core/cpp/losses/entry.hpp"

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
///   static constexpr bool kOfPositives = true;  // of labels 0 and 1: a mean over tasks leaves
///                                               // regressions out where others have such
///   static constexpr bool kTakesClasses = true;  // of sums over samples: scores and labels are
///                                                // numbers of classes; of several ones too
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
concept OfPositives = requires { requires Entry::kOfPositives; };
template <class Entry>
concept TakesGroups = requires { requires Entry::kTakesGroups; };
template <class Entry>
concept TakesClasses = requires { requires Entry::kTakesClasses; };

/// The class that the n logits of a sample choose: the first of the largest, or of one, the
/// log-odds of class 1, whether it is above 0.
template <class Logit>
HCTR_HD std::size_t chosen_class(std::size_t n, const Logit& logit) {
  if (n == 1) return logit(0) > 0.0f ? 1 : 0;
  std::size_t place = 0;
  for (std::size_t j = 1; j < n; ++j) {
    if (logit(j) > logit(place)) place = j;
  }
  return place;
}

/// Adds a sample to the sums of a metric: its score, score(0), or the class that its n scores
/// choose.
template <SumsSamples Entry, class Score>
HCTR_HD void add_sample(const Entry& entry, [[maybe_unused]] std::size_t n, const Score& score,
                        float label, float weight, double* sums) {
  if constexpr (TakesClasses<Entry>) {
    const std::size_t label_class = n == 1 ? (label > 0.5f ? 1 : 0) : class_of(label, n);
    entry.add(static_cast<float>(chosen_class(n, score)), static_cast<float>(label_class), weight,
              sums);
  } else {
    entry.add(score(0), label, weight, sums);
  }
}

}  // namespace hugectr
