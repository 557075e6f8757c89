// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/base/label_range.hpp"
#include "core/cpp/data/read_position.hpp"
#include "core/cpp/data/staging_array.hpp"

namespace hugectr {

/// Offsets into the keys of a batch: B * S + 1 of them a sparse input.
using offset_t = std::uint32_t;

/// One sparse input of the model: slot_num slots read together (DataReaderSparseParam).
struct SparseInput {
  std::string top_name;
  std::vector<int> nnz_per_slot;  ///< largest number of keys of each slot; size slot_num
  bool is_fixed_length = false;   ///< slots are said to have nnz_per_slot keys; fewer are read too
  std::size_t slot_num = 0;
  /// Keys have positions: no slot has more than its nnz_per_slot, whatever the others hold.
  bool in_positions = false;

  std::size_t max_feature_num() const;  ///< sum over slots
  std::size_t max_nnz() const;          ///< max over slots
};

/// What a reader must know of the model's Input.
struct InputLayout {
  std::size_t label_dim = 1;
  std::size_t dense_dim = 0;
  bool i64_keys = false;  ///< keys are int64, else uint32
  std::vector<SparseInput> sparse;
  std::vector<LabelRange> labels;  ///< what the model's losses take, a label column each; or none

  std::size_t total_slots() const;
  /// Throws InvalidArgument naming the sparse input when slot_num and nnz_per_slot do not fit.
  void check() const;
};

/// Compressed sparse rows of one sparse input: row r = sample * slot_num + slot.
struct HostCsr {
  StagingArray keys;         ///< uint32 or int64, nnz of them valid
  StagingArray row_offsets;  ///< offset_t, batch * slot_num + 1
  std::size_t nnz = 0;
};

/// So many samples of a batch, one after the other, that one process has decoded.
struct BatchRun {
  std::size_t process = 0;
  std::size_t samples = 0;
};

/// One (global) batch on the host, as the worker that parsed it left it: the whole of it, or, when
/// several processes share the decoding, this one's samples of it, put together without gaps.
/// A sample that was skipped, and every sample after the last one of an incomplete batch, has
/// weight 0, zero label and dense, and no keys.
struct CSRChunk {
  std::size_t sequence = 0;  ///< 0, 1, 2, ... in the linear order of the data
  std::size_t samples = 0;   ///< real ones of the global batch, skipped ones included
  std::size_t skipped = 0;   ///< of those held: damaged, kept their place with weight 0
  std::uint64_t lost = 0;    ///< samples that damage took out of the data on the way to this batch
  std::string first_damage;  ///< why the first of those held was skipped, or some were lost
  ReadPosition next;         ///< behind the batch
  /// Whose the samples of the batch are, in its order; empty when the chunk holds all of them.
  std::vector<BatchRun> runs;
  StagingArray label;   ///< float32 (B, label_dim)
  StagingArray dense;   ///< float32 (B, dense_dim)
  StagingArray weight;  ///< float32 (B): 1 where the data has no weights, 0 for what does not count
  std::vector<HostCsr> sparse;
};

/// A chunk with room for `batch` samples; the arrays of keys are sized by the batch itself.
HCTR_API CSRChunk make_csr_chunk(const InputLayout& layout, std::size_t batch,
                                 const std::shared_ptr<MemoryResource>& resource);

/// Takes the keys of those samples out that have weight 0. [at, at + count) are the chunk's last.
HCTR_API void take_keys_out(const InputLayout& layout, std::size_t at, std::size_t count,
                            CSRChunk& chunk);

/// Makes samples [first, batch) padding: weight, label and dense 0, no keys.
HCTR_API void pad_samples(const InputLayout& layout, std::size_t first, std::size_t batch,
                          CSRChunk& chunk);

}  // namespace hugectr
