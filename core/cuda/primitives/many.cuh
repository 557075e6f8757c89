// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>

#include "core/cuda/device/launch.cuh"

/// Kernels over several tables at once (several.hpp): a block is of table blockIdx.y, and x walks
/// over that table as it does where there is one. Kernels of one table and of many share their
/// body, which asks for blockIdx.x and gridDim.x only.
namespace hugectr::cuda {

/// Arguments of as many tables as a launch takes: its parameters are 4 KB at most.
template <class Args>
class Many {
 public:
  static_assert(std::is_trivially_copyable_v<Args>);
  static constexpr std::size_t kMost = std::min<std::size_t>(64, 3968 / sizeof(Args));

  explicit Many(std::span<const Args> all) { std::memcpy(bytes_, all.data(), all.size_bytes()); }
  __device__ const Args& of(unsigned table) const {
    return reinterpret_cast<const Args*>(bytes_)[table];
  }
  /// Of the block's table.
  __device__ const Args& mine() const { return of(blockIdx.y); }

 private:
  alignas(Args) unsigned char bytes_[kMost * sizeof(Args)];
};

/// Launches a kernel over all tables, as few times as their arguments allow. blocks_of(args) are
/// those that a table needs: all get as many as the largest.
template <class Args, class BlocksOf>
void launch_many(const OpContext& context, const char* name, std::span<const Args> all, dim3 block,
                 void (*kernel)(Many<Args>), const BlocksOf& blocks_of) {
  for (std::size_t at = 0; at < all.size(); at += Many<Args>::kMost) {
    const auto part = all.subspan(at, std::min(Many<Args>::kMost, all.size() - at));
    unsigned blocks = 0;
    for (const Args& args : part) blocks = std::max<unsigned>(blocks, blocks_of(args));
    launch(context, name, dim3(blocks, static_cast<unsigned>(part.size())), block, 0, kernel,
           Many<Args>(part));
  }
}

}  // namespace hugectr::cuda
