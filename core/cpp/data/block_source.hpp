// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <memory>

#include "core/cpp/data/batch_source.hpp"
#include "core/cpp/data/block_format.hpp"
#include "core/cpp/data/block_order.hpp"
#include "core/cpp/data/shard.hpp"

namespace hugectr {

/// How a BlockSource reads.
struct BlockReading {
  bool repeat = true;
  OnBadData on_bad_data = OnBadData::Error;
  ShuffleSpec shuffle;
  std::size_t decode_threads = 1;  ///< blocks decoded at the same time, ahead of the batches
  Shard shard;                     ///< the blocks this process decodes
  /// No block is decoded ahead while those in memory would then take more than this (BlockInfo's
  /// bytes). What the oldest unfinished batch needs is always decoded.
  std::uint64_t read_ahead_bytes = std::uint64_t{512} << 20;
};

/// Batches from any block format: linear or shuffled order, blocks decoded ahead, exact positions.
/// A block that can not be decoded is a DataError in the place of the first batch that needs it,
/// or, with OnBadData::Skip, all of its samples keep their place with weight 0 and count as bad.
HCTR_API std::unique_ptr<IBatchSource> make_block_source(std::unique_ptr<IBlockFormat> format,
                                                         const InputLayout& layout,
                                                         const BlockReading& reading);

}  // namespace hugectr
