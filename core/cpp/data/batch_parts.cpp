// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/batch_parts.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

std::size_t padded(std::size_t bytes) { return (bytes + 7) / 8 * 8; }

/// The array of float rows of a chunk and their width, for label, dense and weight.
template <class Chunk, class F>
void for_each_float_array(const InputLayout& layout, Chunk& chunk, const F& f) {
  f(chunk.label, layout.label_dim);
  f(chunk.dense, layout.dense_dim);
  f(chunk.weight, std::size_t{1});
}

template <class Length>
void write_lengths(const offset_t* offsets, std::size_t rows, char* to) {
  for (std::size_t r = 0; r < rows; ++r) {
    const auto length = static_cast<Length>(offsets[r + 1] - offsets[r]);
    std::memcpy(to + r * sizeof(Length), &length, sizeof(Length));
  }
}

template <class Length>
offset_t add_lengths(const char* from, std::size_t rows, offset_t at, offset_t* offsets) {
  for (std::size_t r = 0; r < rows; ++r) {
    Length length = 0;
    std::memcpy(&length, from + r * sizeof(Length), sizeof(Length));
    at += static_cast<offset_t>(length);
    offsets[r] = at;
  }
  return at;
}

/// Row offsets behind `at` for samples that all have nnz_per_slot keys.
offset_t add_regular(const SparseInput& input, std::size_t samples, offset_t at,
                     offset_t* offsets) {
  for (std::size_t i = 0; i < samples; ++i) {
    for (const int nnz : input.nnz_per_slot) *offsets++ = at += static_cast<offset_t>(nnz);
  }
  return at;
}

std::size_t length_bytes_of(const SparseInput& input) {
  const std::size_t most = input.max_feature_num();
  return most <= 0xff ? 1 : most <= 0xffff ? 2 : 4;
}

}  // namespace

BatchParts::BatchParts(const InputLayout& layout, std::size_t batch_size,
                       const ResourceManager& resources)
    : layout_(layout), batch_size_(batch_size), rank_(resources.get_process_id()) {
  for (std::size_t id = 0; id < resources.get_global_gpu_count(); ++id) {
    process_of_device_.push_back(resources.get_process_id_from_gpu_global_id(id));
  }
  const std::size_t processes = resources.get_num_process();
  rows_.assign(processes, 0);
  rows_for_.assign(processes, std::vector<std::size_t>(processes, 0));
}

void BatchParts::begin(const std::vector<BatchRun>& runs) {
  runs_ = runs;
  segments_.clear();
  std::fill(rows_.begin(), rows_.end(), 0);
  for (auto& row : rows_for_) std::fill(row.begin(), row.end(), 0);
  const std::size_t local_batch = batch_size_ / process_of_device_.size();
  std::size_t sample = 0;
  for (const BatchRun& run : runs_) {
    for (std::size_t done = 0; done < run.samples;) {
      const std::size_t device = sample / local_batch;
      const std::size_t count = std::min(run.samples - done, (device + 1) * local_batch - sample);
      const std::size_t to = process_of_device_[device];
      segments_.push_back({run.process, to, rows_[run.process], sample, count});
      rows_[run.process] += count;
      rows_for_[run.process][to] += count;
      done += count;
      sample += count;
    }
  }
}

bool BatchParts::is_regular(const SparseInput& input, const offset_t* offsets,
                            std::size_t rows) const {
  offset_t expected = 0;
  for (std::size_t i = 0; i < rows; ++i) {
    offset_t wrong = 0;
    for (std::size_t s = 0; s < input.slot_num; ++s) {
      wrong |= *offsets++ ^ expected;
      expected += static_cast<offset_t>(input.nnz_per_slot[s]);
    }
    if (wrong != 0) return false;
  }
  return *offsets == expected;
}

BatchParts::Note BatchParts::note(const CSRChunk& part) const {
  Note note;
  for (std::size_t i = 0; i < layout_.sparse.size(); ++i) {
    const HostCsr& csr = part.sparse[i];
    const bool regular =
        is_regular(layout_.sparse[i], csr.row_offsets.as<offset_t>(), rows_[rank_]);
    note.push_back({csr.nnz, regular ? 0 : length_bytes_of(layout_.sparse[i])});
  }
  return note;
}

std::size_t BatchParts::letter_bytes(std::size_t from, std::size_t to, const Note& note) const {
  std::size_t bytes = 0;
  for (const std::size_t width : {layout_.label_dim, layout_.dense_dim, std::size_t{1}}) {
    bytes += padded(rows_for_[from][to] * width * sizeof(float));
  }
  for (std::size_t i = 0; i < note.size(); ++i) {
    bytes += padded(rows_[from] * layout_.sparse[i].slot_num * note[i].length_bytes);
    bytes += padded(note[i].nnz * (layout_.i64_keys ? 8 : 4));
  }
  return bytes;
}

void BatchParts::write(const CSRChunk& part, const Note& note, std::size_t to,
                       char* letter) const {
  for_each_float_array(layout_, part, [&](const StagingArray& array, std::size_t width) {
    char* at = letter;
    for (const Segment& segment : segments_) {
      if (segment.from != rank_ || segment.to != to || width == 0) continue;
      const std::size_t bytes = segment.count * width * sizeof(float);
      std::memcpy(at, array.as<float>() + segment.row * width, bytes);
      at += bytes;
    }
    letter += padded(rows_for_[rank_][to] * width * sizeof(float));
  });
  for (std::size_t i = 0; i < note.size(); ++i) {
    const HostCsr& csr = part.sparse[i];
    const std::size_t rows = rows_[rank_] * layout_.sparse[i].slot_num;
    const offset_t* offsets = csr.row_offsets.as<offset_t>();
    if (note[i].length_bytes == 1) write_lengths<std::uint8_t>(offsets, rows, letter);
    if (note[i].length_bytes == 2) write_lengths<std::uint16_t>(offsets, rows, letter);
    if (note[i].length_bytes == 4) write_lengths<std::uint32_t>(offsets, rows, letter);
    letter += padded(rows * note[i].length_bytes);
    const std::size_t bytes = csr.nnz * (layout_.i64_keys ? 8 : 4);
    if (bytes > 0) std::memcpy(letter, csr.keys.as<char>(), bytes);
    letter += padded(bytes);
  }
}

void BatchParts::merge(const std::vector<Note>& notes, const std::vector<const char*>& letters,
                       CSRChunk& whole) const {
  std::vector<const char*> at = letters;
  for_each_float_array(layout_, whole, [&](StagingArray& array, std::size_t width) {
    std::vector<const char*> from = at;
    for (const Segment& segment : segments_) {
      if (segment.to != rank_ || width == 0) continue;
      const std::size_t bytes = segment.count * width * sizeof(float);
      std::memcpy(array.as<float>() + segment.sample * width, from[segment.from], bytes);
      from[segment.from] += bytes;
    }
    for (std::size_t p = 0; p < at.size(); ++p) {
      at[p] += padded(rows_for_[p][rank_] * width * sizeof(float));
    }
  });
  for (std::size_t i = 0; i < layout_.sparse.size(); ++i) {
    merge_input(i, notes, at, whole.sparse[i]);
  }
}

void BatchParts::merge_input(std::size_t index, const std::vector<Note>& notes,
                             std::vector<const char*>& letters, HostCsr& csr) const {
  const SparseInput& input = layout_.sparse[index];
  const std::size_t key_bytes = layout_.i64_keys ? 8 : 4;
  std::vector<const char*> lengths = letters, keys = letters;
  std::size_t nnz = 0;
  for (std::size_t p = 0; p < notes.size(); ++p) {
    keys[p] += padded(rows_[p] * input.slot_num * notes[p][index].length_bytes);
    letters[p] = keys[p] + padded(notes[p][index].nnz * key_bytes);
    nnz += notes[p][index].nnz;
  }
  HCTR_CHECK(nnz <= std::numeric_limits<offset_t>::max(), "sparse input '", input.top_name,
             "': a batch has ", nnz,
             " keys, more than 32-bit row offsets count: use a smaller batch");
  csr.keys.reserve(nnz * key_bytes);
  csr.nnz = nnz;
  offset_t* offsets = csr.row_offsets.as<offset_t>();
  *offsets++ = 0;
  offset_t at = 0;
  for (const BatchRun& run : runs_) {
    const std::size_t p = run.process, rows = run.samples * input.slot_num;
    const std::size_t length_bytes = notes[p][index].length_bytes;
    const offset_t begin = at;
    at = length_bytes == 0   ? add_regular(input, run.samples, at, offsets)
         : length_bytes == 1 ? add_lengths<std::uint8_t>(lengths[p], rows, at, offsets)
         : length_bytes == 2 ? add_lengths<std::uint16_t>(lengths[p], rows, at, offsets)
                             : add_lengths<std::uint32_t>(lengths[p], rows, at, offsets);
    offsets += rows;
    lengths[p] += rows * length_bytes;
    const std::size_t bytes = (at - begin) * key_bytes;
    if (bytes > 0) std::memcpy(csr.keys.as<char>() + begin * key_bytes, keys[p], bytes);
    keys[p] += bytes;
  }
}

}  // namespace hugectr
