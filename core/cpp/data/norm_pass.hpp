// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/data/block_format.hpp"
#include "core/cpp/data/norm_block.hpp"
#include "core/cpp/data/norm_file_walk.hpp"

namespace hugectr {

/// One pass over Norm files in the order of their list, for one process alone: records are found as
/// they are read, and hardly one before its batch is asked for: a block is what a batch takes.
class NormPass final : public IBlockWalk {
 public:
  /// From a position on that a batch ended at. Throws InvalidArgument when there is no such place.
  /// Both outlive the pass.
  NormPass(NormReading& reading, const NormFiles& files, const ReadPosition& from);
  Found next(std::uint64_t rows) override;

 private:
  void open_at(const ReadPosition& from);
  void open_next(Found& found);
  bool take_range(Found& found, std::uint64_t rows);
  void lose(const std::string& path, const std::string& message, std::uint64_t samples, Lost& lost);

  NormReading& reading_;
  const NormFiles& files_;
  std::unique_ptr<NormFileWalk> file_;
  std::size_t next_file_;
  bool any_samples_;
  std::string error_;         ///< found behind the block before
  std::string first_damage_;  ///< of the pass
};

}  // namespace hugectr
