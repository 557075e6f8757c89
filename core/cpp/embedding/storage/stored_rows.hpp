// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "core/cpp/embedding/storage/segment_file.hpp"

namespace hugectr {

/// A sealed segment that keeps its name as long as this lives, whatever the sweep does.
class SegmentHold {
 public:
  explicit SegmentHold(std::shared_ptr<SegmentFile> file) : file_(std::move(file)) {
    file_->hold();
  }
  ~SegmentHold() { file_->let_go(); }
  SegmentHold(const SegmentHold&) = delete;
  SegmentHold& operator=(const SegmentHold&) = delete;

  SegmentFile& file() const { return *file_; }

 private:
  std::shared_ptr<SegmentFile> file_;
};

/// Where rows lie on a disk, for who shares their segments.
struct StoredRows {
  std::vector<RowLocation> at;  ///< of each row that was asked for; nowhere: not to be had there
  std::map<std::uint32_t, std::shared_ptr<SegmentHold>> segments;  ///< those that they name
};

}  // namespace hugectr
