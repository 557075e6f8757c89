// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>

#include "core/cpp/base/error.hpp"
#include "core/cpp/memory/general_buffer2.hpp"
#include "core/cuda/device/scratch.hpp"
#include "core/cuda/driver/device_guard.hpp"
#include "core/cuda/driver/status.hpp"
#include "core/cuda/memory/cuda_allocators.hpp"
#include "tests/cuda/gpu.hpp"

namespace hugectr::cuda {
namespace {

using AllocatorsTest = GpuTest<1>;

cudaMemoryType type_of(const void* data) {
  cudaPointerAttributes attributes{};
  HCTR_TRY(cudaPointerGetAttributes(&attributes, data));
  return attributes.type;
}

TEST_F(AllocatorsTest, ArenaOnTheDevice) {
  auto arena = GeneralBuffer2<CudaAllocator>::create("arena", CudaAllocator(0));
  Tensor2<float> a, b;
  arena->reserve({3, 5}, &a, "a");
  arena->reserve({7}, &b, "b");
  arena->allocate();
  EXPECT_EQ(a.ref().device, device);
  EXPECT_EQ(type_of(a.get_ptr()), cudaMemoryTypeDevice);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.get_ptr()) % MemoryResource::kAlignment, 0u);
  EXPECT_EQ(b.get_ptr() - a.get_ptr(), 16);
  const auto stream = backend().create_stream(device, "test");
  const std::vector<float> values{1, 2, 3, 4, 5, 6, 7};
  std::vector<float> found(7);
  stream->copy(b.get_ptr(), values.data(), 28);
  stream->copy(found.data(), b.get_ptr(), 28);
  stream->synchronize();
  EXPECT_EQ(found, values);
}

TEST_F(AllocatorsTest, PinnedAndManagedMemoryAreReachedFromTheHost) {
  CudaHostAllocator pinned;
  CudaManagedAllocator managed(0);
  EXPECT_EQ(pinned.device(), DeviceId::host());
  EXPECT_EQ(managed.device(), device);
  void* const a = pinned.allocate(1000, "a");
  void* const b = managed.allocate(1000, "b");
  EXPECT_EQ(type_of(a), cudaMemoryTypeHost);
  EXPECT_EQ(type_of(b), cudaMemoryTypeManaged);
  std::memset(a, 3, 1000);
  std::memset(b, 4, 1000);
  const auto stream = backend().create_stream(device, "test");
  stream->copy(b, a, 500);
  stream->synchronize();
  EXPECT_EQ(static_cast<char*>(b)[499], 3);
  EXPECT_EQ(static_cast<char*>(b)[500], 4);
  pinned.deallocate(a, 1000);
  managed.deallocate(b, 1000);
}

TEST_F(AllocatorsTest, GrowablePinnedMemory) {
  const auto memory = backend().staging_resource(device)->reserve_growable(1 << 20, "staging");
  memory->grow(5000);
  auto* const first = static_cast<char*>(memory->data());
  first[4999] = 9;
  memory->grow(100'000);
  EXPECT_EQ(memory->data(), first);
  EXPECT_EQ(first[4999], 9);
  EXPECT_EQ(first[99'999], 0);
  EXPECT_EQ(type_of(first + 99'999), cudaMemoryTypeHost);
}

TEST_F(AllocatorsTest, RunningOutNamesTheOwnerAndTheProcessGoesOn) {
  const auto memory = backend().memory_resource(device);
  std::size_t free = 0, total = 0;
  HCTR_TRY(cudaMemGetInfo(&free, &total));
  try {
    memory->allocate(total * 2, "the activations");
    FAIL();
  } catch (const OutOfMemory& e) {
    EXPECT_NE(std::string(e.what()).find("'the activations'"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("free"), std::string::npos) << e.what();
  }
  EXPECT_THROW(CudaManagedAllocator(0).allocate(total * 2, "managed"), OutOfMemory);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  void* const data = memory->allocate(0, "nothing");
  EXPECT_NE(data, nullptr);
  memory->deallocate(data, 0);
}

TEST_F(AllocatorsTest, ScratchLivesInStreamOrder) {
  const DeviceGuard guard(0);
  const auto stream = backend().create_stream(device, "test");
  const OpContext context{.stream = stream.get(), .device = device};
  DeviceArray<int> out(device, 1000);
  {
    const Scratch scratch(context, 4000);
    EXPECT_EQ(scratch.size(), 4000u);
    stream->fill_zero(scratch.data(), 4000);
    stream->copy(out.data(), scratch.data(), 4000);
    const Scratch none(context, 0);
    EXPECT_NE(none.data(), nullptr);
  }
  EXPECT_EQ(out.get(*stream), std::vector<int>(1000, 0));
}

}  // namespace
}  // namespace hugectr::cuda
