// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/block_format.hpp"

#include "core/cpp/base/error.hpp"

namespace hugectr {

const std::vector<BlockInfo>& IBlockFormat::blocks() const {
  static const std::vector<BlockInfo> kNone;
  return kNone;
}

std::shared_ptr<const IBlock> IBlockFormat::decode(std::size_t block) {
  throw InvalidArgument(concat("block ", block, " of a format that lists none"));
}

}  // namespace hugectr
