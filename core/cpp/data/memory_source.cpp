// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/memory_source.hpp"

#include <algorithm>
#include <atomic>
#include <limits>
#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cpp/data/damage_log.hpp"
#include "core/cpp/data/sample_screen.hpp"

namespace hugectr {
namespace {

/// Samples [first, first + samples), going round at the end of the data.
struct MemoryRawBatch final : RawBatch {
  std::size_t first = 0;
};

class MemorySource final : public IBatchSource {
 public:
  MemorySource(std::shared_ptr<const MemoryData> data, const InputLayout& layout, bool repeat,
               OnBadData on_bad_data)
      : data_(std::move(data)), layout_(layout), repeat_(repeat), on_bad_data_(on_bad_data) {
    check();
  }

  std::unique_ptr<RawBatch> make_raw_batch() const override {
    return std::make_unique<MemoryRawBatch>();
  }

  bool claim(RawBatch& raw, std::size_t batch) override {
    auto& mine = static_cast<MemoryRawBatch&>(raw);
    mine.first = next_;
    if (repeat_) {
      mine.samples = batch;
      epoch_ += (next_ + batch) / data_->samples;
      next_ = (next_ + batch) % data_->samples;
    } else {
      mine.samples = std::min(batch, data_->samples - next_);
      next_ += mine.samples;
    }
    mine.next = {.epoch = epoch_, .sample = next_};
    return mine.samples > 0;
  }

  void parse(const RawBatch& raw, std::size_t batch, CSRChunk& chunk) const override {
    const auto& mine = static_cast<const MemoryRawBatch&>(raw);
    chunk.samples = mine.samples;
    rows_decoded_ += mine.samples;
    chunk.skipped = 0;
    chunk.lost = 0;
    chunk.first_damage.clear();
    chunk.runs.clear();
    for (HostCsr& csr : chunk.sparse) csr.nnz = 0;
    for (std::size_t done = 0; done < mine.samples;) {
      const std::size_t first = (mine.first + done) % data_->samples;
      const std::size_t count =
          std::min({mine.samples - done, data_->samples - first, std::size_t{kTile}});
      copy_run(first, count, done, chunk);
      chunk.skipped += screen_samples(layout_, on_bad_data_, done, count, chunk,
                                      [&](std::size_t i, const BadValue& value) {
                                        refuse(first + (i - done), value.text(layout_), chunk);
                                      });
      done += count;
    }
    bad_samples_ += chunk.skipped;
    pad_samples(layout_, mine.samples, batch, chunk);
  }

  void set_source(const std::string& source) override {
    HCTR_CHECK(source.empty(), "data in memory has no source to change to ('", source,
               "'); pass \"\" to start over");
    next_ = 0;
    epoch_ = 0;
  }

  void seek(const ReadPosition& position) override {
    HCTR_CHECK(position.sample <= data_->samples && (position.epoch == 0 || repeat_),
               "memory source: the data has ", data_->samples, " samples, there is no sample ",
               position.sample, " of epoch ", position.epoch,
               ": is this the data that was trained on?");
    next_ = position.sample;
    epoch_ = position.epoch;
  }

  std::uint64_t rows_decoded() const override { return rows_decoded_; }
  std::uint64_t bad_samples() const override { return bad_samples_; }

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

  void check() const {
    HCTR_CHECK(data_ != nullptr, "memory source: no data");
    layout_.check();
    const std::size_t n = data_->samples;
    HCTR_CHECK(n > 0 || !repeat_, "memory source: no samples, so there is nothing to repeat");
    HCTR_CHECK(data_->label.size() == n * layout_.label_dim, "memory source: ", data_->label.size(),
               " labels, need samples * label_dim = ", n, " * ", layout_.label_dim);
    HCTR_CHECK(data_->dense.size() == n * layout_.dense_dim, "memory source: ", data_->dense.size(),
               " dense values, need samples * dense_dim = ", n, " * ", layout_.dense_dim);
    HCTR_CHECK(data_->sparse.size() == layout_.sparse.size(),
               "memory source: ", data_->sparse.size(), " sparse inputs, the model has ",
               layout_.sparse.size());
    for (std::size_t i = 0; i < layout_.sparse.size(); ++i) check_sparse(i);
  }

  void check_sparse(std::size_t index) const {
    const SparseInput& input = layout_.sparse[index];
    const auto& [keys, offsets] = data_->sparse[index];
    const std::string& name = input.top_name;
    const std::size_t rows = data_->samples * input.slot_num;
    HCTR_CHECK(offsets.size() == rows + 1, "sparse input '", name, "': ", offsets.size(),
               " row offsets, need samples * slot_num + 1 = ", rows + 1);
    HCTR_CHECK(offsets.front() == 0 && offsets.back() == keys.size(), "sparse input '", name,
               "': row offsets run from ", offsets.front(), " to ", offsets.back(),
               ", need 0 to the number of keys ", keys.size());
    for (std::size_t row = 0; row < rows; ++row) {
      const std::size_t slot = row % input.slot_num;
      const auto most = static_cast<std::uint64_t>(input.nnz_per_slot[slot]);
      HCTR_CHECK(offsets[row] <= offsets[row + 1], "sparse input '", name,
                 "': row offsets fall at row ", row);
      const std::uint64_t nnz = offsets[row + 1] - offsets[row];
      HCTR_CHECK(nnz <= most && (!input.is_fixed_length || nnz == most), "sparse input '", name,
                 "', sample ", row / input.slot_num, ", slot ", slot, ": ", nnz, " keys, allowed ",
                 input.is_fixed_length ? "exactly " : "at most ", most, " (nnz_per_slot)");
    }
    if (layout_.i64_keys) return;
    for (const std::int64_t key : keys) {
      HCTR_CHECK(key >= 0 && key <= std::numeric_limits<std::uint32_t>::max(), "sparse input '",
                 name, "': key ", key, " does not fit uint32; set i64_input_key to use it");
    }
  }

  template <class Key>
  static void copy_keys(const std::int64_t* from, std::size_t count, Key* to) {
    for (std::size_t k = 0; k < count; ++k) to[k] = static_cast<Key>(from[k]);
  }

  /// Copies samples [first, first + count) of the data to samples [at, at + count) of the chunk.
  void copy_run(std::size_t first, std::size_t count, std::size_t at, CSRChunk& chunk) const {
    const auto copy = [&](const std::vector<float>& from, std::size_t width, StagingArray& to) {
      std::copy_n(from.data() + first * width, count * width, to.as<float>() + at * width);
    };
    copy(data_->label, layout_.label_dim, chunk.label);
    copy(data_->dense, layout_.dense_dim, chunk.dense);
    std::fill_n(chunk.weight.as<float>() + at, count, 1.0f);
    for (std::size_t i = 0; i < layout_.sparse.size(); ++i) {
      const auto& [keys, offsets] = data_->sparse[i];
      const std::size_t slots = layout_.sparse[i].slot_num;
      HostCsr& csr = chunk.sparse[i];
      const std::uint64_t begin = offsets[first * slots];
      const std::size_t nnz = offsets[(first + count) * slots] - begin;
      const std::size_t key_bytes = layout_.i64_keys ? 8 : 4;
      csr.keys.reserve((csr.nnz + nnz) * key_bytes, true);
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

  std::shared_ptr<const MemoryData> data_;
  InputLayout layout_;
  bool repeat_;
  OnBadData on_bad_data_;
  mutable DamageLog damage_;
  mutable std::atomic<std::uint64_t> bad_samples_{0};
  std::size_t next_ = 0;
  std::uint64_t epoch_ = 0;
  mutable std::atomic<std::uint64_t> rows_decoded_{0};
};

}  // namespace

std::unique_ptr<IBatchSource> make_memory_source(std::shared_ptr<const MemoryData> data,
                                                 const InputLayout& layout, bool repeat,
                                                 OnBadData on_bad_data) {
  return std::make_unique<MemorySource>(std::move(data), layout, repeat, on_bad_data);
}

}  // namespace hugectr
