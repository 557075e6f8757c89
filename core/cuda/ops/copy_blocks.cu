// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <vector>

#include "core/cpp/device/several.hpp"
#include "core/cpp/ops/copy_blocks.hpp"
#include "core/cuda/device/copy_pieces.hpp"

namespace hugectr::cuda {
namespace {

void append(std::vector<CopiedBytes>& pieces, const CopyBlocks& op) {
  const std::size_t width = size_of(op.in.dtype);
  for (std::size_t b = 0; b < op.block_count(); ++b) {
    const CopyBlocks::Block block = op.block(b);
    if (block.size == 0) continue;
    pieces.push_back({static_cast<const unsigned char*>(op.in.data) + block.from * width,
                      static_cast<unsigned char*>(op.out.data) + block.to * width,
                      block.size * width});
  }
}

void copy_blocks(const OpContext& context, const CopyBlocks& op) {
  std::vector<CopiedBytes> pieces;
  append(pieces, op);
  copy_pieces(context, CopyBlocks::kName, pieces);
}

void copy_several(const OpContext& context, const Several<CopyBlocks>& several) {
  std::vector<CopiedBytes> pieces;
  pieces.reserve(several.ops.size());
  for (const CopyBlocks& op : several.ops) append(pieces, op);
  copy_pieces(context, CopyBlocks::kSeveralName, pieces);
}

const OpRegistration<CopyBlocks> copy_blocks_cuda{DeviceType::Cuda, &copy_blocks};
const SeveralRegistration<CopyBlocks> several_copy_blocks_cuda{DeviceType::Cuda, &copy_several};

}  // namespace
}  // namespace hugectr::cuda
