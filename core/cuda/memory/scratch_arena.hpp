// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <mutex>
#include <vector>

namespace hugectr::cuda {

/// Memory that the ops of one stream use inside themselves, one op after the other: what an op gave
/// back may be taken by the next at once, since a stream runs in order. It only grows, and what it
/// outgrew stays until the stream goes, so that a captured graph finds its addresses unchanged.
/// Taking memory is therefore no call of CUDA after the first steps.
class ScratchArena {
 public:
  explicit ScratchArena(int device) : device_(device) {}
  /// The stream's work must be done.
  ~ScratchArena();
  ScratchArena(const ScratchArena&) = delete;
  ScratchArena& operator=(const ScratchArena&) = delete;

  /// Aligned to 256 bytes. Throws OutOfMemory.
  void* take(std::size_t bytes);
  /// Gives one piece back. What is reused only starts from the front when all pieces are back.
  void give_back() noexcept;
  /// Memory held.
  std::size_t size() const;

 private:
  struct Block {
    void* data;
    std::size_t bytes;
  };
  void add_block(std::size_t bytes);

  const int device_;
  mutable std::mutex mutex_;
  std::vector<Block> blocks_;  ///< the last is the one in use
  std::size_t used_ = 0;       ///< of the last block
  std::size_t taken_ = 0;      ///< pieces
};

}  // namespace hugectr::cuda
