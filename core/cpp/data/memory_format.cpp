// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/memory_format.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cpp/data/damage_log.hpp"
#include "core/cpp/data/sample_screen.hpp"

namespace hugectr {
namespace {

/// Samples from `first_sample` on, copied when a batch takes them.
class MemoryBlock final : public IBlock {
 public:
  MemoryBlock(const MemoryView& data, const InputLayout& layout, std::size_t first_sample,
              OnBadData on_bad_data, DamageLog& damage)
      : data_(data),
        layout_(layout),
        first_sample_(first_sample),
        on_bad_data_(on_bad_data),
        damage_(damage) {}

  std::size_t key_count(std::size_t input, std::size_t first, std::size_t count) const override {
    const auto& offsets = data_.sparse[input].row_offsets;
    const std::size_t slots = layout_.sparse[input].slot_num, begin = first_sample_ + first;
    return offsets[(begin + count) * slots] - offsets[begin * slots];
  }

  std::size_t copy_rows(std::size_t first, std::size_t count, std::size_t at,
                        CSRChunk& chunk) const override {
    std::size_t bad = 0;
    for (std::size_t done = 0; done < count; done += kTile) {
      const std::size_t n = std::min(kTile, count - done), to = at + done;
      const std::size_t from = first_sample_ + first + done;
      copy_tile(from, n, to, chunk);
      bad += screen_samples(layout_, on_bad_data_, to, n, chunk,
                            [&](std::size_t i, const BadValue& value) {
                              refuse(from + (i - to), value.text(layout_), chunk);
                            });
      weigh(from, n, to, chunk);  // behind the screen, which does not look at what weighs nothing
    }
    return bad;
  }

 private:
  static constexpr std::size_t kTile = 1024;  ///< samples that stay in the cache for the screen

  /// Throws, or notes the first sample of a chunk.
  void refuse(std::size_t sample, const std::string& what, CSRChunk& chunk) const {
    const std::string message = concat("data in memory, sample ", sample, ": ", what);
    if (on_bad_data_ == OnBadData::Error) {
      throw DataError(message + "; clean the data, or read with on_bad_data=\"skip\"");
    }
    if (!chunk.first_damage.empty()) return;
    chunk.first_damage = message;
    damage_.add("memory", message, 0);
  }

  void weigh(std::size_t first, std::size_t count, std::size_t at, CSRChunk& chunk) const {
    if (data_.weight.empty()) return;
    float* weight = chunk.weight.as<float>() + at;
    for (std::size_t i = 0; i < count; ++i) weight[i] *= data_.weight[first + i];
  }

  template <class Key>
  static void copy_keys(const std::int64_t* from, std::size_t count, Key* to) {
    for (std::size_t k = 0; k < count; ++k) to[k] = static_cast<Key>(from[k]);
  }

  /// Copies samples [first, first + count) of the data to samples [at, at + count) of the chunk.
  void copy_tile(std::size_t first, std::size_t count, std::size_t at, CSRChunk& chunk) const {
    const auto copy = [&](std::span<const float> from, std::size_t width, StagingArray& to) {
      std::copy_n(from.data() + first * width, count * width, to.as<float>() + at * width);
    };
    copy(data_.label, layout_.label_dim, chunk.label);
    copy(data_.dense, layout_.dense_dim, chunk.dense);
    std::fill_n(chunk.weight.as<float>() + at, count, 1.0f);
    for (std::size_t i = 0; i < layout_.sparse.size(); ++i) {
      const auto& [keys, offsets] = data_.sparse[i];
      const std::size_t slots = layout_.sparse[i].slot_num;
      HostCsr& csr = chunk.sparse[i];
      const std::uint64_t begin = offsets[first * slots];
      const std::size_t nnz = offsets[(first + count) * slots] - begin;
      offset_t* rows = csr.row_offsets.as<offset_t>() + at * slots;
      for (std::size_t row = 0; row <= count * slots; ++row) {
        rows[row] = static_cast<offset_t>(csr.nnz + offsets[first * slots + row] - begin);
      }
      if (layout_.i64_keys) {
        copy_keys(keys.data() + begin, nnz, csr.keys.as<std::int64_t>() + csr.nnz);
      } else {
        copy_keys(keys.data() + begin, nnz, csr.keys.as<std::uint32_t>() + csr.nnz);
      }
      csr.nnz += nnz;
    }
  }

  const MemoryView& data_;
  const InputLayout& layout_;
  const std::size_t first_sample_;
  const OnBadData on_bad_data_;
  DamageLog& damage_;
};

/// Whether every slot has as many keys as it may; one pass that the compiler turns into vectors.
bool all_as_allowed(std::span<const std::uint64_t> offsets, std::uint64_t most) {
  bool good = true;
  for (std::size_t row = 0; row + 1 < offsets.size(); ++row) {
    // Offsets that fall are a count beyond any bound.
    const std::uint64_t nnz = offsets[row + 1] - offsets[row];
    good &= nnz <= most;
  }
  return good;
}

void check_rows(const MemoryView::Sparse& found, const SparseInput& input) {
  const std::span<const std::uint64_t> offsets = found.row_offsets;
  const auto [fewest, most_keys] = std::ranges::minmax(input.nnz_per_slot);
  if (fewest == most_keys) {
    const auto most = static_cast<std::uint64_t>(most_keys);
    if (all_as_allowed(offsets, most)) return;
  }
  for (std::size_t row = 0, slot = 0; row + 1 < offsets.size(); ++row, ++slot) {
    if (slot == input.slot_num) slot = 0;
    const auto most = static_cast<std::uint64_t>(input.nnz_per_slot[slot]);
    HCTR_CHECK(offsets[row] <= offsets[row + 1], "sparse input '", input.top_name,
               "': row offsets fall at row ", row);
    const std::uint64_t nnz = offsets[row + 1] - offsets[row];
    HCTR_CHECK(nnz <= most, "sparse input '", input.top_name, "', sample ", row / input.slot_num,
               ", slot ", slot, ": ", nnz, " keys, allowed at most ", most, " (nnz_per_slot)");
  }
}

void check_sparse(const MemoryView& data, const InputLayout& layout, std::size_t index) {
  const SparseInput& input = layout.sparse[index];
  const auto& [keys, offsets] = data.sparse[index];
  const std::string& name = input.top_name;
  const std::size_t rows = data.samples * input.slot_num;
  HCTR_CHECK(offsets.size() == rows + 1, "sparse input '", name, "': ", offsets.size(),
             " row offsets, need samples * slot_num + 1 = ", rows + 1);
  HCTR_CHECK(offsets.front() == 0 && offsets.back() == keys.size(), "sparse input '", name,
             "': row offsets run from ", offsets.front(), " to ", offsets.back(),
             ", need 0 to the number of keys ", keys.size());
  check_rows(data.sparse[index], input);
  if (layout.i64_keys) return;
  for (const std::int64_t key : keys) {
    HCTR_CHECK(key >= 0 && key <= std::numeric_limits<std::uint32_t>::max(), "sparse input '", name,
               "': key ", key, " does not fit uint32; set i64_input_key to use it");
  }
}

void check_weight(const MemoryView& data) {
  const std::span<const float> weight = data.weight;
  HCTR_CHECK(weight.empty() || weight.size() == data.samples, "memory source: ", weight.size(),
             " weights of samples, need ", data.samples, ", one a sample, or none");
  for (std::size_t i = 0; i < weight.size(); ++i) {
    HCTR_CHECK(weight[i] >= 0.0f && std::isfinite(weight[i]), "memory source: sample ", i,
               " has the weight ", weight[i], ", which must be a finite number from 0 on");
  }
}

}  // namespace

MemoryView::MemoryView(const MemoryData& data)
    : samples(data.samples), label(data.label), dense(data.dense), weight(data.weight) {
  for (const MemoryData::Sparse& one : data.sparse) sparse.push_back({one.keys, one.row_offsets});
}

void check_memory_data(const MemoryView& data, const InputLayout& layout) {
  layout.check();
  const std::size_t n = data.samples;
  HCTR_CHECK(layout.label_dim == 0 || data.label.size() == n * layout.label_dim,
             "memory source: ", data.label.size(), " labels, need samples * label_dim = ", n, " * ",
             layout.label_dim);
  HCTR_CHECK(data.dense.size() == n * layout.dense_dim, "memory source: ", data.dense.size(),
             " dense values, need samples * dense_dim = ", n, " * ", layout.dense_dim);
  check_weight(data);
  HCTR_CHECK(data.sparse.size() == layout.sparse.size(), "memory source: ", data.sparse.size(),
             " sparse inputs, the model has ", layout.sparse.size());
  for (std::size_t i = 0; i < layout.sparse.size(); ++i) check_sparse(data, layout, i);
}

void copy_to_chunk(const MemoryView& data, const InputLayout& layout, std::size_t first,
                   std::size_t count, std::size_t batch, CSRChunk& chunk) {
  DamageLog damage;
  const MemoryBlock block(data, layout, 0, OnBadData::Error, damage);
  const std::size_t key_bytes = layout.i64_keys ? sizeof(std::int64_t) : sizeof(std::uint32_t);
  for (std::size_t i = 0; i < layout.sparse.size(); ++i) {
    chunk.sparse[i].nnz = 0;
    chunk.sparse[i].keys.reserve(block.key_count(i, first, count) * key_bytes);
  }
  chunk.samples = count;
  block.copy_rows(first, count, 0, chunk);
  pad_samples(layout, count, batch, chunk);
}

namespace {

class MemoryFormat final : public IBlockFormat {
 public:
  MemoryFormat(std::shared_ptr<const MemoryData> data, const InputLayout& layout, bool repeat,
               OnBadData on_bad_data)
      : data_(std::move(data)), layout_(layout), repeat_(repeat), on_bad_data_(on_bad_data) {
    HCTR_CHECK(data_ != nullptr, "memory source: no data");
    view_ = *data_;
    HCTR_CHECK(data_->samples > 0 || !repeat_,
               "memory source: no samples, so there is nothing to repeat");
    check_memory_data(view_, layout_);
    for (std::size_t first = 0; first < data_->samples; first += kBlockSamples) {
      blocks_.push_back({.rows = std::min(kBlockSamples, data_->samples - first)});
    }
  }

  const std::vector<std::string>& files() const override { return files_; }
  const std::vector<BlockInfo>& blocks() const override { return blocks_; }
  bool decodes_ahead() const override { return false; }

  std::shared_ptr<const IBlock> decode(std::size_t block) override {
    return std::make_shared<MemoryBlock>(view_, layout_, block * kBlockSamples, on_bad_data_,
                                         damage_);
  }

  void set_source(const std::string& source) override {
    HCTR_CHECK(source.empty(), "data in memory has no source to change to ('", source,
               "'); pass \"\" to start over");
  }

  /// The end of a pass is the beginning of the next one.
  void locate(ReadPosition& position, bool /*at_end*/) const override {
    if (repeat_ && position.sample == data_->samples) position = {.epoch = position.epoch + 1};
  }

 private:
  static constexpr std::size_t kBlockSamples = 4096;  ///< a block costs next to nothing

  const std::shared_ptr<const MemoryData> data_;
  MemoryView view_;  ///< of it
  const InputLayout layout_;
  const bool repeat_;
  const OnBadData on_bad_data_;
  DamageLog damage_;
  const std::vector<std::string> files_;  ///< none
  std::vector<BlockInfo> blocks_;
};

}  // namespace

std::unique_ptr<IBlockFormat> make_memory_format(std::shared_ptr<const MemoryData> data,
                                                 const InputLayout& layout, bool repeat,
                                                 OnBadData on_bad_data) {
  return std::make_unique<MemoryFormat>(std::move(data), layout, repeat, on_bad_data);
}

}  // namespace hugectr
