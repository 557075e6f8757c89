// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/data/batch_source.hpp"
#include "core/cpp/data/block_format.hpp"
#include "core/cpp/data/raw_rows.hpp"

namespace hugectr {

/// How many keys each slot of a Raw sample holds where nnz_per_slot allows several.
enum class RawKeys {
  /// One, or nnz_per_slot where the size of the files is that of num_samples such samples. Without
  /// num_samples one.
  BySize,
  All,  ///< nnz_per_slot
};

/// What a Raw file (one file, no header, samples of a fixed size) needs to be read.
struct RawReading {
  std::uint64_t num_samples = 0;  ///< that the files must hold together; 0: as many as they do
  RawNumbers numbers;
  RawKeys keys = RawKeys::BySize;
  std::vector<std::int64_t> slot_offsets;  ///< added to the keys of each slot; empty: nothing
  /// RawAsync: whole blocks are read ahead past the page cache (O_DIRECT), by as many threads as
  /// decode; without it samples are read when a batch needs them.
  bool direct = false;
  std::size_t block_bytes = std::size_t{1} << 20;  ///< about; a block holds whole samples
  /// RawAsync: blocks stay in memory after their first reading while all of them fit in here.
  std::uint64_t keep_bytes = 0;
  OnBadData on_bad_data = OnBadData::Error;
};

/// `source`: one path, or several separated by newlines, in this order. Throws DataError for a file
/// that is missing, whose size is not a multiple of the sample's, or for a wrong num_samples; where
/// slots may hold one key or several, it says the sizes of both samples.
HCTR_API std::unique_ptr<IBlockFormat> make_raw_format(const std::string& source,
                                                       const InputLayout& layout,
                                                       const RawReading& reading);

}  // namespace hugectr
