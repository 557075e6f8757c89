// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/cpp/data/csr_chunk.hpp"
#include "core/cpp/device/resource_manager.hpp"

namespace hugectr {

/// How the parts of one batch, each decoded by one process, become letters and letters become the
/// batch. Label, dense and weight of a sample go to the process of its device only; keys go to
/// everybody, because each device picks its own ones out of the whole batch.
///
/// The letter of p to q: its samples on q's devices as label (4 * label_dim bytes each), dense
/// (4 * dense_dim), weight (4); then for each sparse input the number of keys of each of its rows
/// (nothing when every slot has nnz_per_slot keys, else 1, 2 or 4 bytes a row) and the keys (4 or
/// 8 bytes each). Each piece is filled up to a multiple of 8 bytes.
class BatchParts {
 public:
  /// What must be known of a part to read its letter.
  struct InputNote {
    std::uint64_t nnz = 0;
    std::uint64_t length_bytes = 0;  ///< 0: all slots have nnz_per_slot keys
  };
  using Note = std::vector<InputNote>;  ///< one a sparse input

  BatchParts(const InputLayout& layout, std::size_t batch_size, ResourceManager& resources);

  /// Turns to another batch: whose its samples are.
  void begin(const std::vector<BatchRun>& runs);
  /// Of this process's part of the present batch.
  Note note(const CSRChunk& part) const;
  std::size_t letter_bytes(std::size_t from, std::size_t to, const Note& note) const;
  /// Writes this process's letter to process `to`.
  void write(const CSRChunk& part, const Note& note, std::size_t to, char* letter) const;
  /// Puts the letters of all processes together. The whole has label, dense and weight of this
  /// process's samples only, and all keys; its other members are the caller's.
  void merge(const std::vector<Note>& notes, const std::vector<const char*>& letters,
             CSRChunk& whole) const;

 private:
  /// Samples of one process's part that lie one after the other in the batch, for one process.
  struct Segment {
    std::size_t from, to;  ///< processes
    std::size_t row;       ///< the first one, in the part
    std::size_t sample;    ///< the same, in the batch
    std::size_t count;
  };
  bool is_regular(const SparseInput& input, const offset_t* offsets, std::size_t rows) const;
  void merge_input(std::size_t input, const std::vector<Note>& notes,
                   std::vector<const char*>& letters, HostCsr& csr) const;
  /// body(i) for all segments, on the threads of the pool.
  template <class Body>
  void for_each_segment(const Body& body) const;

  const InputLayout& layout_;
  const std::size_t batch_size_, rank_;
  ThreadPool& pool_;
  std::vector<std::size_t> process_of_device_;
  std::vector<Segment> segments_;                   ///< in the order of the batch
  std::vector<std::size_t> rows_;                   ///< of each process's part
  std::vector<std::vector<std::size_t>> rows_for_;  ///< [from][to]
};

}  // namespace hugectr
