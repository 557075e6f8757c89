// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/ops/copy_blocks.hpp"

#include <cstring>

#include "core/cpp/base/error.hpp"
#include "core/cpp/device/several.hpp"
#include "core/cpp/device/thread_pool.hpp"

namespace hugectr {
namespace {

void copy_blocks_kernel(const OpContext& context, const CopyBlocks& op) {
  const std::size_t width = size_of(op.in.dtype);
  const auto* const in = static_cast<const char*>(op.in.data);
  auto* const out = static_cast<char*>(op.out.data);
  parallel_for(*context.pool, op.block_count(), 1, [&](std::size_t begin, std::size_t end) {
    for (std::size_t b = begin; b < end; ++b) {
      const CopyBlocks::Block block = op.block(b);
      if (block.size == 0) continue;
      std::memcpy(out + block.to * width, in + block.from * width, block.size * width);
    }
  });
}

const OpRegistration<CopyBlocks> copy_blocks_cpu{DeviceType::Cpu, &copy_blocks_kernel};
const SeveralRegistration<CopyBlocks> several_copy_blocks_cpu{DeviceType::Cpu};

}  // namespace

void CopyBlocks::check() const {
  HCTR_CHECK(in.dtype == out.dtype && in.contiguous() && out.contiguous(), kName,
             ": copies packed arrays of one dtype, found ", to_string(in.dtype), " and ",
             to_string(out.dtype));
  HCTR_CHECK(from.size() == sizes.size() && to.size() == sizes.size(), kName, ": ", from.size(),
             " from, ", to.size(), " to and ", sizes.size(), " sizes: must be one of each a block");
  HCTR_CHECK(!whole || (sizes.empty() && in.size() <= out.size()), kName, ": ", in.size(),
             " elements go to ", out.size(), ", and are one block: there is room, and no list");
  const auto within = [](std::int64_t begin, std::int64_t size, const TensorRef& ref) {
    return begin >= 0 && size >= 0 &&
           static_cast<std::size_t>(begin) + static_cast<std::size_t>(size) <= ref.size();
  };
  for (std::size_t b = 0; b < sizes.size(); ++b) {
    HCTR_CHECK(within(from[b], sizes[b], in) && within(to[b], sizes[b], out), kName, ": block ", b,
               " of ", sizes[b], " elements goes from ", from[b], " of ", in.size(), " to ", to[b],
               " of ", out.size());
  }
}

}  // namespace hugectr
