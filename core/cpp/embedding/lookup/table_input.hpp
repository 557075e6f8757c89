// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/cpp/data/data_reader.hpp"
#include "core/cpp/memory/general_buffer2.hpp"

namespace hugectr {

/// Which sparse inputs of a batch a table reads. Its slots are theirs, one input after the other.
struct TableInput {
  struct Part {
    std::size_t input = 0;  ///< number of the sparse input
    std::size_t slots = 1;
  };
  std::vector<Part> parts;
  std::optional<std::size_t> times;  ///< number of the sparse input with samples' times

  bool joins() const { return parts.size() > 1; }
  std::size_t slot_num() const;
};

/// Where the keys of a table that reads several inputs lie as those of one. A table with a single
/// input is given that itself and needs no memory.
class JoinedKeys {
 public:
  /// The keys of `batch` (every sparse input of it) that the table reads. Enqueues, on a stream
  /// that no longer waits for readers of the former batch; waits itself when room has to be made.
  SparseTensor join(const OpContext& context, const std::shared_ptr<MemoryResource>& memory,
                    const std::string& owner, const TableInput& input,
                    std::span<const SparseTensor> batch);

  /// Room for so many keys and rows.
  void allocate(const std::shared_ptr<MemoryResource>& memory, const std::string& owner,
                TensorScalarType key_type, std::size_t keys, std::size_t rows);
  const std::shared_ptr<DeviceBuffer2>& arena() const { return arena_; }

 private:
  std::shared_ptr<DeviceBuffer2> arena_;
  std::size_t key_capacity_ = 0, row_capacity_ = 0;
  TensorBag2 keys_, row_offsets_;
};

}  // namespace hugectr
