// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/cpp/base/export.hpp"
#include "core/cpp/data/data_reader.hpp"
#include "core/cpp/data/make_source.hpp"
#include "core/cpp/model/spec.hpp"

namespace hugectr {

/// What read_through() found.
struct ReadThrough {
  std::uint64_t samples = 0;
  double seconds = 0;       ///< from the first batch on the device to the last
  std::uint64_t bytes = 0;  ///< of labels, dense features, keys and offsets of those samples
  ReaderMetrics metrics;
};

/// Reads `batches` batches (fewer when the data ends) through the whole pipeline onto the devices
/// and trains nothing: how fast a source can be. Batches are given back as soon as they are there.
HCTR_API ReadThrough read_through(const SolverSpec& solver, const ReaderSpec& reader,
                                  const InputSpec& input, std::size_t batches);

}  // namespace hugectr
