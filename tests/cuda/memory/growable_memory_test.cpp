// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include "core/cpp/base/error.hpp"
#include "core/cpp/memory/growable_tensor.hpp"
#include "core/cuda/driver/status.hpp"
#include "core/cuda/memory/cuda_growable_memory.hpp"
#include "tests/cuda/gpu.hpp"

namespace hugectr::cuda {
namespace {

using GrowableMemoryTest = GpuTest<1>;

TEST_F(GrowableMemoryTest, NewRowsAreZeroAndOldOnesStay) {
  const auto stream = backend().create_stream(device, "test");
  const auto memory = backend().memory_resource(device);
  GrowableTensor rows(*memory, TensorScalarType::Int32, 1024, 100'000, "rows");
  rows.grow_to(3);
  int* const first = rows.ref().ptr<int>();
  EXPECT_EQ(rows.ref().device, device);
  const std::size_t before = rows.rows();
  std::vector<int> ones(before * 1024, 1);
  stream->copy(first, ones.data(), ones.size() * 4);
  stream->synchronize();
  rows.grow_to(before + 1);
  rows.grow_to(9'000);
  EXPECT_EQ(rows.ref().ptr<int>(), first);
  std::vector<int> found(9'000 * 1024);
  stream->copy(found.data(), first, found.size() * 4);
  stream->synchronize();
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i], i < ones.size() ? 1 : 0) << i;
  }
}

TEST_F(GrowableMemoryTest, MemoryGoesBackToTheDevice) {
  constexpr std::size_t kBytes = std::size_t{512} << 20;
  const auto stream = backend().create_stream(device, "test");
  std::size_t before = 0, during = 0, after = 0, total = 0;
  HCTR_TRY(cudaMemGetInfo(&before, &total));
  {
    const auto memory = make_cuda_growable_memory(0, std::size_t{1} << 40, "table");
    EXPECT_EQ(memory->size(), 0u);
    EXPECT_GE(memory->reserved(), std::size_t{1} << 40);
    memory->grow(kBytes / 2 + 1);
    memory->grow(kBytes);
    EXPECT_GE(memory->size(), kBytes);
    EXPECT_LE(memory->size(), kBytes + (std::size_t{4} << 20));
    HCTR_TRY(cudaMemGetInfo(&during, &total));
    EXPECT_GE(before - during, kBytes);
  }
  HCTR_TRY(cudaMemGetInfo(&after, &total));
  EXPECT_GE(after, during + kBytes);
}

TEST_F(GrowableMemoryTest, RunningOutNamesTheOwnerAndLeavesWhatThereWas) {
  std::size_t free = 0, total = 0;
  HCTR_TRY(cudaMemGetInfo(&free, &total));
  const auto memory = make_cuda_growable_memory(0, total * 4, "the users table");
  memory->grow(1000);
  const std::size_t size = memory->size();
  try {
    memory->grow(total * 2);
    FAIL();
  } catch (const OutOfMemory& e) {
    EXPECT_NE(std::string(e.what()).find("'the users table'"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find(std::to_string(total * 2)), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("free"), std::string::npos) << e.what();
  }
  EXPECT_EQ(memory->size(), size);
  memory->grow(size + 1);
  EXPECT_GT(memory->size(), size);
  EXPECT_THROW(memory->grow(memory->reserved() + 1), OutOfMemory);
}

TEST_F(GrowableMemoryTest, TakesWhatThePoolKeepsUnused) {
  const auto resource = backend().memory_resource(device);
  std::size_t free = 0, total = 0;
  HCTR_TRY(cudaMemGetInfo(&free, &total));
  const std::size_t most = free / 4 * 3;
  resource->deallocate(resource->allocate(most, "arena"), most);
  const auto memory = make_cuda_growable_memory(0, total, "table");
  memory->grow(most);
  EXPECT_GE(memory->size(), most);
}

}  // namespace
}  // namespace hugectr::cuda
