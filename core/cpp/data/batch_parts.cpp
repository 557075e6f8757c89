// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/batch_parts.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

/// Samples that one thread moves in one go.
constexpr std::size_t kPieceSamples = 4096;

std::size_t padded(std::size_t bytes) { return (bytes + 7) / 8 * 8; }

/// The array of float rows of a chunk and their width, for label, dense and weight.
template <class Chunk, class F>
void for_each_float_array(const InputLayout& layout, Chunk& chunk, const F& f) {
  f(chunk.label, layout.label_dim);
  f(chunk.dense, layout.dense_dim);
  f(chunk.weight, std::size_t{1});
}

// Plain arguments, no captures: what is written could be one of the variables captured.
template <class Length>
void write_lengths(const offset_t* offsets, std::size_t rows, char* to) {
  for (std::size_t r = 0; r < rows; ++r) {
    const auto length = static_cast<Length>(offsets[r + 1] - offsets[r]);
    std::memcpy(to + r * sizeof(Length), &length, sizeof(Length));
  }
}

template <class Length>
std::size_t sum_lengths(const char* from, std::size_t rows) {
  std::size_t sum = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    Length length = 0;
    std::memcpy(&length, from + r * sizeof(Length), sizeof(Length));
    sum += length;
  }
  return sum;
}

/// Writes the row offsets behind `at`.
template <class Length>
void add_lengths(const char* from, std::size_t rows, offset_t at, offset_t* offsets) {
  for (std::size_t r = 0; r < rows; ++r) {
    Length length = 0;
    std::memcpy(&length, from + r * sizeof(Length), sizeof(Length));
    offsets[r] = at += length;
  }
}

/// Calls f(Length{}) with the unsigned type of so many bytes.
template <class F>
auto with_length_type(std::size_t bytes, const F& f) {
  return bytes == 1 ? f(std::uint8_t{}) : bytes == 2 ? f(std::uint16_t{}) : f(std::uint32_t{});
}

/// The same for samples that all have nnz_per_slot keys.
void add_regular(const SparseInput& input, std::size_t samples, offset_t at, offset_t* offsets) {
  for (std::size_t i = 0; i < samples; ++i) {
    for (const int nnz : input.nnz_per_slot) *offsets++ = at += static_cast<offset_t>(nnz);
  }
}

std::size_t length_bytes_of(const SparseInput& input) {
  const std::size_t most = input.max_feature_num();
  return most <= 0xff ? 1 : most <= 0xffff ? 2 : 4;
}

}  // namespace

BatchParts::BatchParts(const InputLayout& layout, std::size_t batch_size,
                       ResourceManager& resources)
    : layout_(layout),
      batch_size_(batch_size),
      rank_(resources.get_process_id()),
      pool_(resources.pool()) {
  for (std::size_t id = 0; id < resources.get_global_gpu_count(); ++id) {
    process_of_device_.push_back(resources.get_process_id_from_gpu_global_id(id));
  }
  const std::size_t processes = resources.get_num_process();
  rows_.assign(processes, 0);
  rows_for_.assign(processes, std::vector<std::size_t>(processes, 0));
}

void BatchParts::begin(const std::vector<BatchRun>& runs) {
  segments_.clear();
  std::fill(rows_.begin(), rows_.end(), 0);
  for (auto& row : rows_for_) std::fill(row.begin(), row.end(), 0);
  const std::size_t local_batch = batch_size_ / process_of_device_.size();
  std::size_t sample = 0;
  for (const BatchRun& run : runs) {
    for (std::size_t done = 0; done < run.samples;) {
      const std::size_t device = sample / local_batch;
      const std::size_t count = std::min(
          {run.samples - done, (device + 1) * local_batch - sample, std::size_t{kPieceSamples}});
      const std::size_t to = process_of_device_[device];
      segments_.push_back({run.process, to, rows_[run.process], sample, count});
      rows_[run.process] += count;
      rows_for_[run.process][to] += count;
      done += count;
      sample += count;
    }
  }
}

template <class Body>
void BatchParts::for_each_segment(const Body& body) const {
  // A window of shuffling makes a segment of every sample.
  const std::size_t grain =
      std::max<std::size_t>(1, segments_.size() * kPieceSamples / batch_size_);
  parallel_for(pool_, segments_.size(), grain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) body(i);
  });
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

void BatchParts::write(const CSRChunk& part, const Note& note, std::size_t to, char* letter) const {
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
    if (note[i].length_bytes > 0) {
      with_length_type(note[i].length_bytes,
                       [&](auto type) { write_lengths<decltype(type)>(offsets, rows, letter); });
    }
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
  const std::size_t key_bytes = layout_.i64_keys ? 8 : 4, slots = input.slot_num;
  const std::vector<const char*> lengths = letters;
  std::vector<const char*> keys = letters;
  std::size_t nnz = 0;
  for (std::size_t p = 0; p < notes.size(); ++p) {
    keys[p] += padded(rows_[p] * slots * notes[p][index].length_bytes);
    letters[p] = keys[p] + padded(notes[p][index].nnz * key_bytes);
    nnz += notes[p][index].nnz;
  }
  HCTR_CHECK(nnz <= std::numeric_limits<offset_t>::max(), "sparse input '", input.top_name,
             "': a batch has ", nnz,
             " keys, more than 32-bit row offsets count: use a smaller batch");
  csr.keys.reserve(nnz * key_bytes);
  csr.nnz = nnz;
  // How many keys each segment has; then it is known where they and their offsets begin.
  const auto lengths_of = [&](const Segment& segment) {
    return lengths[segment.from] + segment.row * slots * notes[segment.from][index].length_bytes;
  };
  std::vector<std::size_t> counts(segments_.size());
  for_each_segment([&](std::size_t i) {
    const Segment& segment = segments_[i];
    const std::size_t length_bytes = notes[segment.from][index].length_bytes;
    counts[i] = length_bytes == 0 ? segment.count * input.max_feature_num()
                                  : with_length_type(length_bytes, [&](auto type) {
                                      return sum_lengths<decltype(type)>(lengths_of(segment),
                                                                         segment.count * slots);
                                    });
  });
  offset_t* const offsets = csr.row_offsets.as<offset_t>();
  offsets[0] = 0;
  std::vector<std::size_t> begins(segments_.size()), in_part(segments_.size());
  std::vector<std::size_t> done(notes.size());
  std::size_t begin = 0;
  for (std::size_t i = 0; i < segments_.size(); ++i) {
    begins[i] = begin;
    in_part[i] = done[segments_[i].from];
    begin += counts[i];
    done[segments_[i].from] += counts[i];
  }
  for_each_segment([&](std::size_t i) {
    const Segment& segment = segments_[i];
    const auto at = static_cast<offset_t>(begins[i]);
    offset_t* const to = offsets + segment.sample * slots + 1;
    const std::size_t length_bytes = notes[segment.from][index].length_bytes;
    if (length_bytes == 0) {
      add_regular(input, segment.count, at, to);
    } else {
      with_length_type(length_bytes, [&](auto type) {
        add_lengths<decltype(type)>(lengths_of(segment), segment.count * slots, at, to);
      });
    }
    if (counts[i] == 0) return;
    std::memcpy(csr.keys.as<char>() + begins[i] * key_bytes,
                keys[segment.from] + in_part[i] * key_bytes, counts[i] * key_bytes);
  });
}

}  // namespace hugectr
