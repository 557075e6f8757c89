// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/memory/scratch_arena.hpp"

#include <algorithm>

#include "core/cuda/memory/cuda_memory_resource.hpp"

namespace hugectr::cuda {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::size_t kMinBlock = std::size_t{1} << 20;

}  // namespace

ScratchArena::~ScratchArena() {
  const auto memory = make_cuda_memory_resource(device_);
  for (const Block& block : blocks_) memory->deallocate(block.data, block.bytes);
}

void* ScratchArena::take(std::size_t bytes) {
  const std::size_t size =
      (std::max<std::size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  const std::lock_guard lock(mutex_);
  if (blocks_.empty() || blocks_.back().bytes - used_ < size) add_block(size);
  void* const data = static_cast<char*>(blocks_.back().data) + used_;
  used_ += size;
  ++taken_;
  return data;
}

void ScratchArena::add_block(std::size_t bytes) {
  // Room for what is taken now too, so that the same op fits into the block the next time; half as
  // much again as before, so that all outgrown blocks together are not more than twice the last.
  const std::size_t before = blocks_.empty() ? 0 : blocks_.back().bytes;
  const std::size_t size = std::max({kMinBlock, used_ + bytes, before + before / 2});
  void* const data = make_cuda_memory_resource(device_)->allocate(size, "scratch of a stream");
  blocks_.push_back({data, size});
  used_ = 0;
}

void ScratchArena::give_back() noexcept {
  const std::lock_guard lock(mutex_);
  if (--taken_ == 0) used_ = 0;
}

std::size_t ScratchArena::size() const {
  const std::lock_guard lock(mutex_);
  std::size_t bytes = 0;
  for (const Block& block : blocks_) bytes += block.bytes;
  return bytes;
}

}  // namespace hugectr::cuda
