// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/cpp/data/batch_source.hpp"
#include "core/cpp/data/block_format.hpp"
#include "core/cpp/data/csr_chunk.hpp"

namespace hugectr {

/// Samples held in memory; what tests, benchmarks and embedding programs feed.
struct MemoryData {
  std::size_t samples = 0;
  std::vector<float> label;  ///< (samples, label_dim)
  std::vector<float> dense;  ///< (samples, dense_dim)
  /// (samples) or empty: each counts 1. How much each counts in the loss, in the statistics of a
  /// batch and in metrics; from 0 on.
  std::vector<float> weight;
  struct Sparse {
    std::vector<std::int64_t> keys;          ///< all keys, widened
    std::vector<std::uint64_t> row_offsets;  ///< samples * slot_num + 1
  };
  std::vector<Sparse> sparse;  ///< one a SparseInput
};

/// The same arrays where they lie; they must stay there, as they are, while it is used.
struct HCTR_API MemoryView {
  struct Sparse {
    std::span<const std::int64_t> keys;
    std::span<const std::uint64_t> row_offsets;
  };

  MemoryView() = default;
  MemoryView(const MemoryData& data);  // NOLINT(google-explicit-constructor): it is the same thing

  std::size_t samples = 0;
  std::span<const float> label, dense, weight;
  std::vector<Sparse> sparse;
};

/// Throws InvalidArgument when sizes do not fit the layout, a key does not fit the key type, or a
/// slot holds more keys than nnz_per_slot allows. Without labels in the layout those of the data
/// are not looked at.
HCTR_API void check_memory_data(const MemoryView& data, const InputLayout& layout);

/// Samples [first, first + count) of checked data as a chunk of `batch` of them, the rest padding;
/// its arrays of keys grow as they must. Throws DataError, naming the sample, for a value that
/// nothing can be computed with.
HCTR_API void copy_to_chunk(const MemoryView& data, const InputLayout& layout, std::size_t first,
                            std::size_t count, std::size_t batch, CSRChunk& chunk);

/// Blocks of samples that lie in memory; nothing is copied before a batch takes them. `repeat`: as
/// the data will be read. Throws as check_memory_data(). Values that nothing can be computed with
/// are damage, as in files.
HCTR_API std::unique_ptr<IBlockFormat> make_memory_format(std::shared_ptr<const MemoryData> data,
                                                          const InputLayout& layout, bool repeat,
                                                          OnBadData on_bad_data);

}  // namespace hugectr
