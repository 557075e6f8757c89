// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/data/csr_chunk.hpp"

/// What a format is: samples that are reached block by block (a Parquet row group, a range of a Raw
/// file, a range of Norm records, samples in memory). BlockSource puts order, shuffling, decoding
/// ahead and positions on top.
namespace hugectr {

/// Decoded samples of one block. Any number of threads may copy from it.
class HCTR_API IBlock {
 public:
  virtual ~IBlock() = default;
  /// Room needed for the keys of rows [first, first + count) in sparse input `input`: their number
  /// or more.
  virtual std::size_t key_count(std::size_t input, std::size_t first, std::size_t count) const = 0;
  /// Writes rows [first, first + count) as samples [at, at + count) of the chunk: label, dense and
  /// weight there, keys behind the chunk's nnz (there is room), offsets, nnz. Returns the number of
  /// rows that were damaged and kept their place with weight 0. Throws DataError naming file and
  /// row.
  virtual std::size_t copy_rows(std::size_t first, std::size_t count, std::size_t at,
                                CSRChunk& chunk) const = 0;
  /// Where the row after the first `rows` ones begins in the file, when ReadPosition::byte tells.
  virtual std::uint64_t byte_behind(std::size_t /*rows*/) const { return 0; }
};

/// What is read and decoded in one go.
struct BlockInfo {
  std::size_t file = 0;    ///< position in files()
  std::uint64_t rows = 0;  ///< at least one
  /// About how much memory it takes once decoded; 0: none of its own, or too little to count.
  std::uint64_t bytes = 0;
  // Samples that damage took out of the data, with OnBadData::Skip.
  std::uint64_t lost_before = 0;  ///< found on the way to the first row
  std::uint64_t lost_behind = 0;  ///< found with the last row
};

/// One pass over blocks that are found as they are read, in the linear order of the data.
class HCTR_API IBlockWalk {
 public:
  /// Samples that damage took out of the data, with OnBadData::Skip.
  struct Lost {
    std::uint64_t samples = 0;
    std::string damage;  ///< what took the first of them
  };
  struct Found {
    std::shared_ptr<const IBlock> block;  ///< null: the pass is over
    std::uint64_t rows = 0;               ///< at least one
    std::size_t file = 0;                 ///< position in files()
    std::uint64_t first_record = 0;       ///< its number in the file
    bool ends_file = false;               ///< no row of the file follows
    Lost before;                          ///< found on the way to the first row, or to the end
    Lost behind;                          ///< found with the last row
  };
  virtual ~IBlockWalk() = default;
  /// The next block; `rows` are wanted at once, which is a good size. One thread at a time, and
  /// others wait: what takes long is left to the block's copy_rows(). Throws DataError for damage
  /// in its place, and for a pass without any block.
  virtual Found next(std::uint64_t rows) = 0;
};

/// Either lists its blocks (blocks() and decode()) or finds them on the way (walk()). Only those of
/// a list can be shuffled, decoded ahead, and shared by processes.
class HCTR_API IBlockFormat {
 public:
  virtual ~IBlockFormat() = default;
  virtual const std::vector<std::string>& files() const = 0;
  /// All blocks in the linear order of the data.
  virtual const std::vector<BlockInfo>& blocks() const;
  /// Reads and decodes one block; called from many threads. Throws DataError naming the file.
  virtual std::shared_ptr<const IBlock> decode(std::size_t block);
  /// A pass over blocks that can not be listed without reading all of the data, from a position on
  /// that a batch ended at: what is left of the pass of that number of samples. Null: they are
  /// listed. Throws InvalidArgument when the data has no such place.
  virtual std::unique_ptr<IBlockWalk> walk(const ReadPosition& /*from*/) { return nullptr; }
  /// Samples lost behind the last block.
  virtual std::uint64_t lost_at_end() const { return 0; }
  /// False when decode() costs nothing (the work is in copy_rows()): then nothing is decoded ahead.
  virtual bool decodes_ahead() const { return true; }
  /// Other files of the same format ("" = look at the same ones again).
  virtual void set_source(const std::string& source) = 0;
  /// Fills `file` and `record` of the position behind position.sample samples of a pass in linear
  /// order; `at_end`: more were asked for than there are. Formats that can jump need neither.
  virtual void locate(ReadPosition& /*position*/, bool /*at_end*/) const {}
  /// Damaged samples that decode() already knows of.
  virtual std::uint64_t bad_samples() const { return 0; }
};

}  // namespace hugectr
