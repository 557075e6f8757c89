// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/norm_ranges.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cpp/data/norm_block.hpp"
#include "core/cpp/data/norm_file_walk.hpp"
#include "core/cpp/data/norm_index.hpp"
#include "core/cpp/data/process_agreement.hpp"

namespace hugectr {
namespace {

class NormRanges final : public IBlockFormat {
 public:
  NormRanges(const std::string& file_list, const InputLayout& layout, bool framed,
             OnBadData on_bad_data, std::uint64_t range_bytes,
             std::shared_ptr<IProcessGroup> processes)
      : reading_(layout, framed, on_bad_data, range_bytes), processes_(std::move(processes)) {
    set_source(file_list);
  }

  const std::vector<std::string>& files() const override { return files_.paths; }
  const std::vector<BlockInfo>& blocks() const override { return blocks_; }
  /// The threads that ask read and walk: what follows, the decoding, is the greater part.
  bool decodes_ahead() const override { return false; }

  std::shared_ptr<const IBlock> decode(std::size_t block) override {
    const Place& place = places_.at(block);
    const NormFileIndex& file = index_[blocks_[block].file];
    if (place.damaged) throw DataError(damage_text(file));
    const auto [first, last] = losses_.equal_range(block);
    for (auto loss = first; loss != last; ++loss) lose(loss->second);
    return read(place, blocks_[block]);
  }

  void set_source(const std::string& source) override {
    NormFiles files;
    together(processes_.get(), [&] { files = files_.other(source); });
    static const std::vector<NormFileIndex> kNothing;
    std::vector<NormFileIndex> index = index_norm_files(
        files.paths, reading_, *processes_, files.paths == files_.paths ? index_ : kNothing);
    check_any_samples(files, index);
    files_ = std::move(files);
    index_ = std::move(index);
    cut_blocks();
  }

  void locate(ReadPosition& position, bool at_end) const override {
    if (at_end) {
      position.file = files_.paths.size();
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
    std::uint64_t record = 0;  ///< the first one's number in its file
    std::uint64_t byte = 0, end = 0;
    bool cut = false;      ///< a record before `end` is left out
    bool damaged = false;  ///< stands for the sample at which OnBadData::Error stops
  };

  std::shared_ptr<const IBlock> read(const Place& place, const BlockInfo& block) {
    NormFileWalk walk(std::make_shared<const std::string>(files_.paths[block.file]), reading_.shape,
                      reading_.layout);
    walk.seek(place.record, place.byte);
    std::shared_ptr<NormRange> range = reading_.ranges->take();
    walk.next(*range, place.end - place.byte, block.rows);
    if (range->rows() != block.rows || (!place.cut && walk.byte() != place.end)) {
      throw DataError(
          norm_message(*range->path, walk.byte(),
                       "the file has changed since it was indexed; set the source again"));
    }
    return std::make_shared<NormBlock>(reading_, std::move(range));
  }

  static std::string damage_text(const NormFileIndex& file) {
    // A header has a way out of its own, and no promise to break.
    return file.promised > 0 || file.surplus ? file.damage + kNormWayOut : file.damage;
  }

  void check_any_samples(const NormFiles& files, const std::vector<NormFileIndex>& index) const {
    std::string first_damage;
    for (const NormFileIndex& file : index) {
      if (file.records > 0) return;
      if (file.damage.empty()) continue;
      if (reading_.on_bad_data == OnBadData::Error) return;  // that file's own error says more
      if (first_damage.empty()) first_damage = file.damage;
    }
    throw DataError(no_norm_samples(files.list, index.size(), first_damage));
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
        places_.push_back({.record = range.first_record,
                           .byte = range.byte,
                           .end = last ? file.end_byte : file.ranges[r + 1].byte});
      }
      samples += file.records;
      if (!file.damage.empty()) {
        if (reading_.on_bad_data == OnBadData::Error) {
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
    reading_.damage.add(files_.paths[file], index_[file].damage, 0);
  }

  NormReading reading_;
  const std::shared_ptr<IProcessGroup> processes_;
  NormFiles files_;
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
                                               const InputLayout& layout, bool framed,
                                               OnBadData on_bad_data, std::uint64_t range_bytes,
                                               std::shared_ptr<IProcessGroup> processes) {
  return std::make_unique<NormRanges>(file_list, layout, framed, on_bad_data, range_bytes,
                                      std::move(processes));
}

}  // namespace hugectr
