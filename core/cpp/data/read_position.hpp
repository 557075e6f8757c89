// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace hugectr {

/// A place between two samples, in the order in which a source hands them out. Taken behind a batch
/// that has trained and given to IBatchSource::seek(), reading goes on with the very next sample.
struct ReadPosition {
  std::uint64_t epoch = 0;   ///< passes over the data that are complete
  std::uint64_t sample = 0;  ///< samples of this pass that were handed out
  // What a format that can not jump needs besides (Norm); 0 elsewhere.
  std::uint64_t file = 0;    ///< files of this pass that were opened
  std::uint64_t record = 0;  ///< records read of the last of them
  std::uint64_t byte = 0;    ///< offset of the next record there; 0 = no file is open

  bool operator==(const ReadPosition&) const = default;
};

}  // namespace hugectr
