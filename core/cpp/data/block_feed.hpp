// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/cpp/data/batch_source.hpp"
#include "core/cpp/data/block_format.hpp"
#include "core/cpp/data/block_source.hpp"

namespace hugectr {

/// Rows [first, first + count) of a visited block.
struct BlockRun {
  std::uint64_t visit = 0, first = 0, count = 0;
  std::uint64_t sample = 0;             ///< where they begin in the batch
  std::shared_ptr<const IBlock> block;  ///< null: the feed is asked for it when the batch is parsed
};

struct BlockBatch final : RawBatch {
  std::uint64_t number = 0;  ///< of the claim, from 1 on
  std::vector<BlockRun> runs;
};

/// Which rows of which blocks make up the batches, and where these blocks come from.
class IBlockFeed {
 public:
  virtual ~IBlockFeed() = default;
  /// Puts the next `samples` rows (fewer at the end of the data) into an empty batch. One thread at
  /// a time; the other members are called from many.
  virtual void claim(BlockBatch& batch, std::size_t samples) = 0;
  /// The decoded block of a run that has none. Throws DataError.
  virtual std::shared_ptr<const IBlock> block(const BlockRun& run, std::uint64_t batch) = 0;
  /// The rows of a run are parsed, or given up.
  virtual void done(const BlockRun& run) = 0;
  /// The batch of this number asks for no more blocks.
  virtual void finished(std::uint64_t batch) = 0;
  /// Nobody is using a batch.
  virtual void seek(const ReadPosition& position) = 0;
  virtual std::uint64_t rows_decoded() const = 0;
  /// Samples that damage took out of the data on the way, besides those that the format counts.
  virtual std::uint64_t lost_samples() const = 0;
};

/// Feeds from a list of blocks: in any order, decoded ahead.
std::unique_ptr<IBlockFeed> make_listed_blocks(IBlockFormat& format, const BlockReading& reading);
/// Feeds from blocks that are found on the way; `walk` is the beginning of the first pass.
std::unique_ptr<IBlockFeed> make_walked_blocks(IBlockFormat& format,
                                               std::unique_ptr<IBlockWalk> walk,
                                               const BlockReading& reading);

}  // namespace hugectr
