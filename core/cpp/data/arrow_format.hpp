// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/data/arrow_abi.hpp"
#include "core/cpp/data/batch_source.hpp"
#include "core/cpp/data/block_format.hpp"

namespace hugectr {

/// Which column is what, by name. Columns of `slots` belong to the slots of all sparse inputs, in
/// their order: a number a row, or a list of at most nnz_per_slot.
struct ArrowMapping {
  std::vector<std::string> labels, dense, slots;
  std::vector<std::int64_t> slot_offsets;  ///< added to the keys of each slot; empty: nothing
  /// Those of `slots` that have lists in an order, oldest first: of more than nnz_per_slot the last
  /// count.
  std::vector<std::string> sequences{};
};

/// What a decoder of record batches (Parquet row groups, tables in memory) gives the core.
struct ArrowSource {
  std::vector<std::string> files;
  std::vector<BlockInfo> blocks;
};

/// Record batches as a block format. `decode` fills schema and array with block i of the present
/// source as a struct array (its children: at least the mapped columns); `open` lists the blocks of
/// a source. Both are called from threads of the reader and may throw DataError; what decode gives
/// is released when the last batch of it has been parsed, nothing of it is copied before.
struct ArrowDecoder {
  std::function<ArrowSource(const std::string& source)> open;
  std::function<void(std::size_t block, ArrowSchema* schema, ArrowArray* array)> decode;
};

/// Damage (nulls, keys that do not fit the key type, more keys than nnz_per_slot where they are no
/// sequence, columns that are missing or of another type) is a DataError with file, row and column;
/// with OnBadData::Skip a damaged row keeps its place with weight 0.
HCTR_API std::unique_ptr<IBlockFormat> make_arrow_format(const std::string& source,
                                                         ArrowDecoder decoder,
                                                         const ArrowMapping& mapping,
                                                         const InputLayout& layout,
                                                         OnBadData on_bad_data);

}  // namespace hugectr
