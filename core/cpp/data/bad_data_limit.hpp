// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/cpp/data/csr_chunk.hpp"

namespace hugectr {

/// Stops a run that passes over too much of its data: a wrong column or a wrong file looks like
/// damage to a reader, sample by sample, and a training that skips all of it would "succeed".
///
/// Counts whole batches in their order, so that neither workers nor processes change what is
/// decided, or where.
class HCTR_API BadDataLimit {
 public:
  static constexpr double kNone = std::numeric_limits<double>::infinity();

  /// `most`: share of the samples that may be bad, 0 to 1, or kNone. `epoch`: of the first pass.
  BadDataLimit(double most, std::uint64_t epoch) : most_(most), epoch_(epoch) {}

  /// Throws DataError, a PlacedDataError that prefers processes with a reason to give, when too
  /// much of the data so far is bad: more than the share of it, or of kFewSamples until a pass is
  /// over (a handful of samples decides nothing); or all of it.
  void add(const CSRChunk& whole);
  /// The data has ended, and so many samples were lost behind the last batch.
  void end(std::uint64_t lost);

 private:
  static constexpr std::uint64_t kFewSamples = 1000;
  static constexpr std::uint64_t kFewSamplesOfNone = 32;  ///< when not one of them counts
  static constexpr std::size_t kReasons = 3;
  void check() const;

  double most_;
  std::uint64_t epoch_;
  bool pass_over_ = false;
  std::uint64_t samples_ = 0, bad_ = 0;  ///< lost ones in both
  std::vector<std::string> reasons_;
};

}  // namespace hugectr
