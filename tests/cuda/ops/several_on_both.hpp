// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/device/resource_manager.hpp"
#include "core/cpp/device/several.hpp"
#include "tests/cuda/gpu.hpp"

/// Ops of several tables on a GPU against the same ops on the CPU, a table after the other.
namespace hugectr {

/// Puts copies of an op's host tensors, the memory between their rows included, in their place.
class ToGpu final : public OpVisitor {
 public:
  explicit ToGpu(GPUResource& gpu) : gpu_(gpu) {}

  void tensor(const char* name, Access access, TensorRef& ref) override {
    const std::size_t elements =
        ref.size() == 0 ? 0 : (ref.rows() - 1) * ref.row_stride + ref.row_size();
    const std::size_t bytes = elements * size_of(ref.dtype);
    auto* const host = static_cast<unsigned char*>(ref.data);
    auto& copy = copies_.emplace_back();
    copy.name = name;
    copy.host = host;
    copy.bytes = bytes;
    copy.written = access != Access::In;
    copy.on_gpu = std::make_unique<DeviceArray<unsigned char>>(gpu_.device(), bytes + 1);
    copy.on_gpu->set(gpu_.plan_stream(), std::vector<unsigned char>(host, host + bytes));
    ref.data = copy.on_gpu->data();
    ref.device = gpu_.device();
  }
  /// After both have run.
  void expect_same(std::size_t table) {
    for (const Copy& copy : copies_) {
      if (!copy.written) continue;
      const std::vector<unsigned char> found = copy.on_gpu->get(gpu_.plan_stream());
      EXPECT_EQ(std::memcmp(found.data(), copy.host, copy.bytes), 0)
          << copy.name << " of table " << table;
    }
  }

 private:
  struct Copy {
    std::string name;
    unsigned char* host = nullptr;
    std::size_t bytes = 0;
    bool written = false;
    std::unique_ptr<DeviceArray<unsigned char>> on_gpu;
  };
  GPUResource& gpu_;
  std::vector<Copy> copies_;
};

/// `ops` have host tensors, which they fill in the end.
template <class Op>
void expect_same_of_several(GPUResource& gpu, GPUResource& cpu, const std::vector<Op>& ops) {
  std::vector<std::unique_ptr<ToGpu>> copies;
  std::vector<Op> on_gpu = ops;
  for (Op& op : on_gpu) {
    copies.push_back(std::make_unique<ToGpu>(gpu));
    op.visit(*copies.back());
  }
  run_several(gpu.plan_context(), std::move(on_gpu));
  gpu.plan_stream().synchronize();
  for (const Op& op : ops) run(cpu.plan_context(), Op(op));
  cpu.plan_stream().synchronize();
  for (std::size_t t = 0; t < ops.size(); ++t) copies[t]->expect_same(t);
}

}  // namespace hugectr
