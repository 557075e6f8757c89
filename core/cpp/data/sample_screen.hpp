// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <functional>
#include <string>

#include "core/cpp/base/export.hpp"
#include "core/cpp/data/batch_source.hpp"
#include "core/cpp/data/csr_chunk.hpp"

namespace hugectr {

/// A value of a parsed sample that nothing can be computed with.
struct BadValue {
  enum class Part { Label, Dense, Key };
  Part part = Part::Label;
  std::size_t index = 0;  ///< label or dense feature; for a key the sparse input
  std::size_t slot = 0;   ///< of a key, in its sparse input
  std::size_t nth = 0;    ///< of a key, among those of the sample in the sparse input
  std::string found;      ///< the value
  std::string allowed;    ///< "; what it must be"

  /// As formats without names for columns call it: "dense value 3 is nan; it must be ...".
  std::string text(const InputLayout& layout) const;
};

/// Called with the position in the chunk of a sample and what is wrong with it. Throws, or makes a
/// note: then the sample is skipped.
using RefuseSample = std::function<void(std::size_t sample, const BadValue& value)>;

/// Looks at the last `count` samples of a chunk, those from `at` on, for what parsing can not see:
/// labels and dense features that are not finite, labels that the loss does not take, and, with
/// OnBadData::Skip, the reserved key (else the lookup plan finds that one, and names the table).
/// Those refused keep their place with weight 0. Returns their number. All formats call it, tile by
/// tile, while the values are in the cache.
HCTR_API std::size_t screen_samples(const InputLayout& layout, OnBadData on_bad_data,
                                    std::size_t at, std::size_t count, CSRChunk& chunk,
                                    const RefuseSample& refuse);

}  // namespace hugectr
