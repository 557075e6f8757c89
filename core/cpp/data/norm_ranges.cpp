// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/norm_ranges.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cpp/data/file_list.hpp"
#include "core/cpp/data/norm_boundary.hpp"
#include "core/cpp/data/norm_decoder.hpp"
#include "core/cpp/data/norm_index.hpp"
#include "core/cpp/data/process_agreement.hpp"

namespace hugectr {
namespace {

/// Bytes of one range and where its records lie in them; a record is decoded when it is copied.
class NormBlock final : public IBlock {
 public:
  NormBlock(const InputLayout& layout, const NormRecordShape& shape, const NormDecoder& decoder)
      : layout_(layout), shape_(shape), decoder_(decoder) {}

  /// Reads `rows` records, which end at `end` (or before, when `cut`). Throws DataError when they
  /// do not any more.
  void read(const std::shared_ptr<const std::string>& path, std::uint64_t byte, std::uint64_t end,
            bool cut, std::uint64_t rows) {
    const NormFile file(path, shape_, layout_);
    const std::size_t size = end - byte;
    raw_.bytes.reserve(size + NormRawBatch::kSlack);
    const auto* const bytes = raw_.bytes.as<std::uint8_t>();
    raw_.used = file.read(byte, raw_.bytes.as<std::uint8_t>(), size);
    raw_.runs.push_back({0, 0, byte, path});
    std::size_t cursor = 0;
    for (; raw_.samples < rows; ++raw_.samples) {
      NormRawBatch::Record record{cursor, 0};
      std::size_t needed = 0;
      std::string what;
      if (fit_record(shape_, bytes + cursor, raw_.used - cursor, &record.payload_bytes, &needed,
                     &what) != RecordFit::Whole) {
        break;
      }
      raw_.records.push_back(record);
      cursor += record.payload_bytes + shape_.frame_bytes();
    }
    if (raw_.samples == rows && (cut || cursor == size)) return;
    throw DataError(norm_message(
        *path, byte + cursor, "the file has changed since it was indexed; set the source again"));
  }

  std::size_t key_count(std::size_t input, std::size_t first, std::size_t count) const override {
    std::size_t keys = 0;
    for (std::size_t row = first; row < first + count; ++row) {
      keys += (raw_.records[row].payload_bytes - shape_.min_payload) / shape_.key_bytes;
    }
    return std::min(keys, count * shape_.inputs[input].most) + NormDecoder::kKeySlack;
  }

  std::size_t copy_rows(std::size_t first, std::size_t count, std::size_t at,
                        CSRChunk& chunk) const override {
    return decoder_.decode_rows(raw_, first, count, at, chunk);
  }

  std::uint64_t byte_behind(std::size_t rows) const override {
    const NormRawBatch::Record& last = raw_.records[rows - 1];
    return raw_.runs[0].file_offset + last.begin + last.payload_bytes + shape_.frame_bytes();
  }

 private:
  const InputLayout& layout_;
  const NormRecordShape& shape_;
  const NormDecoder& decoder_;
  NormRawBatch raw_;
};

class NormRanges final : public IBlockFormat {
 public:
  NormRanges(const std::string& file_list, const InputLayout& layout, Check check,
             OnBadData on_bad_data, std::shared_ptr<IProcessGroup> processes,
             std::uint64_t range_bytes)
      : layout_(layout),
        shape_(layout_, check == Check::Sum, layout.i64_keys ? 8 : 4),
        on_bad_data_(on_bad_data),
        range_bytes_(range_bytes),
        processes_(std::move(processes)),
        decoder_(layout_, shape_, on_bad_data, damage_) {
    layout_.check();
    HCTR_CHECK(shape_.min_payload > 0, "Norm data: the model's Input has no label, dense or slot");
    set_source(file_list);
  }

  const std::vector<std::string>& files() const override { return paths_; }
  const std::vector<BlockInfo>& blocks() const override { return blocks_; }
  /// The threads that ask read and walk: what follows, the decoding, is the greater part.
  bool decodes_ahead() const override { return false; }

  std::shared_ptr<const IBlock> decode(std::size_t block) override {
    const Place& place = places_.at(block);
    const NormFileIndex& file = index_[blocks_[block].file];
    if (place.damaged) throw DataError(damage_text(file));
    const auto [first, last] = losses_.equal_range(block);
    for (auto loss = first; loss != last; ++loss) lose(loss->second);
    auto result = std::make_shared<NormBlock>(layout_, shape_, decoder_);
    result->read(std::make_shared<const std::string>(paths_[blocks_[block].file]), place.byte,
                 place.end, place.cut, blocks_[block].rows);
    return result;
  }

  void set_source(const std::string& source) override {
    std::vector<std::string> paths = paths_;
    together(processes_.get(), [&] {
      if (!source.empty()) paths = read_file_list(source);
      HCTR_CHECK(!paths.empty(), "Norm data: no source is set; pass the path of a file list");
    });
    static const std::vector<NormFileIndex> kNothing;
    std::vector<NormFileIndex> index = index_norm_files(
        paths, shape_, layout_, range_bytes_, *processes_, paths == paths_ ? index_ : kNothing);
    check_any_samples(source.empty() ? file_list_ : source, index);
    if (!source.empty()) file_list_ = source;
    paths_ = std::move(paths);
    index_ = std::move(index);
    cut_blocks();
  }

  void locate(ReadPosition& position, bool at_end) const override {
    if (at_end) {
      position.file = paths_.size();
      return;
    }
    if (position.sample == 0) return;
    const auto file = static_cast<std::size_t>(
        std::upper_bound(ends_.begin(), ends_.end(), position.sample - 1) - ends_.begin());
    const std::uint64_t record = position.sample - (file > 0 ? ends_[file - 1] : 0);
    position.file = file + 1;
    if (record < index_[file].promised) position.record = record;
  }

  std::uint64_t bad_samples() const override { return lost_samples_; }
  std::uint64_t lost_at_end() const override { return lost_at_end_; }

 private:
  struct Place {
    std::uint64_t byte = 0, end = 0;
    bool cut = false;      ///< a record before `end` is left out
    bool damaged = false;  ///< stands for the sample at which OnBadData::Error stops
  };

  std::string damage_text(const NormFileIndex& file) const {
    // A header has a way out of its own, and no promise to break.
    return file.promised > 0 || file.surplus ? file.damage + kNormWayOut : file.damage;
  }

  void check_any_samples(const std::string& list, const std::vector<NormFileIndex>& index) const {
    std::string first_damage;
    for (const NormFileIndex& file : index) {
      if (file.records > 0) return;
      if (file.damage.empty()) continue;
      if (on_bad_data_ == OnBadData::Error) return;  // that file's own error says more
      if (first_damage.empty()) first_damage = file.damage;
    }
    throw DataError(no_norm_samples(list, index.size(), first_damage));
  }

  void cut_blocks() {
    blocks_.clear();
    places_.clear();
    ends_.clear();
    losses_.clear();
    lost_at_end_ = 0;
    std::uint64_t samples = 0;
    for (std::size_t f = 0; f < index_.size(); ++f) {
      const NormFileIndex& file = index_[f];
      for (std::size_t r = 0; r < file.ranges.size(); ++r) {
        const NormFileIndex::Range& range = file.ranges[r];
        const bool last = r + 1 == file.ranges.size();
        const std::uint64_t end = last ? file.records : file.ranges[r + 1].first_record;
        blocks_.push_back({.file = f,
                           .rows = end - range.first_record,
                           .lost_before = std::exchange(lost_at_end_, 0)});
        places_.push_back({range.byte, last ? file.end_byte : file.ranges[r + 1].byte});
      }
      samples += file.records;
      if (!file.damage.empty()) {
        if (on_bad_data_ == OnBadData::Error) {
          samples += stop_at_damage(f);
        } else {
          // Where one process would find it: bytes behind the last record at once, all else when it
          // asks for the next record.
          const bool at_once = file.surplus && !file.ranges.empty();
          (at_once ? blocks_.back().lost_behind : lost_at_end_) += file.lost;
          // Counted by whoever decodes the file's last block or, when it has none, the block that
          // follows.
          losses_.emplace(blocks_.size() - (file.ranges.empty() ? 0 : 1), f);
        }
      }
      ends_.push_back(samples);
    }
    for (auto loss = losses_.find(blocks_.size()); loss != losses_.end();
         loss = losses_.find(blocks_.size())) {
      losses_.emplace(blocks_.size() - 1, loss->second);  // none follows
      losses_.erase(loss);
    }
  }

  /// Puts the block that is an error behind those of file f. Returns how many samples it adds.
  std::uint64_t stop_at_damage(std::size_t f) {
    const NormFileIndex& file = index_[f];
    // Surplus bytes are found behind the last record: the batch with it is the one that fails.
    const bool instead_of_last = file.surplus && file.records > 0;
    if (instead_of_last) {
      places_.back().cut = true;
      if (--blocks_.back().rows == 0) {
        blocks_.pop_back();
        places_.pop_back();
      }
    }
    blocks_.push_back({.file = f, .rows = 1});
    places_.push_back({.damaged = true});
    return instead_of_last ? 0 : 1;
  }

  void lose(std::size_t file) {
    lost_samples_ += index_[file].lost;
    damage_.add(paths_[file], index_[file].damage, 0);
  }

  const InputLayout layout_;
  const NormRecordShape shape_;
  const OnBadData on_bad_data_;
  const std::uint64_t range_bytes_;
  std::shared_ptr<IProcessGroup> processes_;
  DamageLog damage_;
  NormDecoder decoder_;
  std::string file_list_;
  std::vector<std::string> paths_;
  std::vector<NormFileIndex> index_;
  std::vector<BlockInfo> blocks_;
  std::vector<Place> places_;
  std::vector<std::uint64_t> ends_;                 ///< samples up to the end of each file
  std::multimap<std::size_t, std::size_t> losses_;  ///< with a block: files whose loss it counts
  std::uint64_t lost_at_end_ = 0;
  std::atomic<std::uint64_t> lost_samples_{0};
};

}  // namespace

std::unique_ptr<IBlockFormat> make_norm_ranges(const std::string& file_list,
                                               const InputLayout& layout, Check check,
                                               OnBadData on_bad_data,
                                               std::shared_ptr<IProcessGroup> processes,
                                               std::uint64_t range_bytes) {
  HCTR_CHECK(processes != nullptr, "Norm ranges: no process group");
  return std::make_unique<NormRanges>(file_list, layout, check, on_bad_data, std::move(processes),
                                      range_bytes);
}

}  // namespace hugectr
