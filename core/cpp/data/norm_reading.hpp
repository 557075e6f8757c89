// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/data/damage_log.hpp"
#include "core/cpp/data/norm_decoder.hpp"
#include "core/cpp/data/norm_range.hpp"

namespace hugectr {

/// The paths of a file list.
struct NormFiles {
  std::string list;
  std::vector<std::string> paths;
  /// Those of another list ("" = the same ones). Throws DataError when it can not be read.
  NormFiles other(const std::string& source) const;
};

/// What reading Norm files needs, wherever in them.
struct NormReading {
  /// Throws InvalidArgument for an Input without anything to read.
  NormReading(const InputLayout& input, bool framed, OnBadData policy, std::uint64_t bytes);
  NormReading(const NormReading&) = delete;
  NormReading& operator=(const NormReading&) = delete;

  const InputLayout layout;
  const NormRecordShape shape;
  const OnBadData on_bad_data;
  const std::uint64_t range_bytes;  ///< of a block at most, but a record at least
  DamageLog damage;
  const NormDecoder decoder;
  const std::shared_ptr<NormRangePool> ranges = std::make_shared<NormRangePool>();
};

}  // namespace hugectr
