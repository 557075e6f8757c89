// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/device/several.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "core/cpp/base/half.hpp"
#include "core/cpp/device/resource_manager.hpp"
#include "core/cpp/device/work_counts.hpp"

namespace hugectr::test {
namespace {

/// to = 2 from; notes nothing else.
struct Twice {
  static constexpr const char* kName = "test_twice";
  static constexpr const char* kSeveralName = "several_test_twice";
  static constexpr std::string_view k16BitFields = "to";
  TensorRef from, to;
  void visit(OpVisitor& v) {
    v.tensor("from", Access::In, from);
    v.tensor("to", Access::Out, to);
  }
  void check() const { HCTR_CHECK(from.size() == to.size(), kName, ": sizes differ"); }
};

void twice(const OpContext&, const Twice& op) {
  for (std::size_t i = 0; i < op.from.size(); ++i) {
    op.to.ptr<float>()[i] = 2 * op.from.ptr<float>()[i];
  }
}

const OpRegistration<Twice> twice_cpu{DeviceType::Cpu, &twice};
const SeveralRegistration<Twice> several_twice_cpu{DeviceType::Cpu};

class SeveralOps : public ::testing::Test {
 protected:
  std::vector<Twice> ops(std::size_t count) {
    std::vector<Twice> all;
    from_.assign(count, {});
    to_.assign(count, {});
    for (std::size_t i = 0; i < count; ++i) {
      from_[i].resize(i + 1, static_cast<float>(i));
      to_[i].resize(i + 1);
      all.push_back({make_ref(from_[i].data(), {i + 1}), make_ref(to_[i].data(), {i + 1})});
    }
    return all;
  }
  std::uint64_t ops_of(std::vector<Twice> all) {
    const std::uint64_t before = work_counts().ops;
    run_several(context_, std::move(all));
    gpu_.compute_stream().synchronize();
    return work_counts().ops - before;
  }

  std::shared_ptr<ResourceManager> resources_ = ResourceManager::create({{0}}, 1);
  GPUResource& gpu_ = resources_->get_local_gpu(0);
  OpContext context_ = gpu_.compute_context();
  std::vector<std::vector<float>> from_, to_;
};

TEST_F(SeveralOps, AreRunAndCountedAsOne) {
  EXPECT_EQ(ops_of(ops(0)), 0u);
  for (const std::size_t count : {1, 2, 7}) {
    EXPECT_EQ(ops_of(ops(count)), 1u);
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(to_[i], std::vector<float>(i + 1, 2.0f * static_cast<float>(i)));
    }
  }
}

TEST_F(SeveralOps, AreAllCheckedBeforeAnyRuns) {
  std::vector<Twice> all = ops(3);
  all[2].to.shape = {1};
  EXPECT_THROW(run_several(context_, std::move(all)), InvalidArgument);
  gpu_.compute_stream().synchronize();
  EXPECT_EQ(to_[1], std::vector<float>(2)) << "the first ones ran";
}

TEST_F(SeveralOps, Take16BitsOnTheCpuToo) {
  std::vector<Twice> all = ops(2);
  std::vector<BFloat16> narrow(2);
  all[1].to = make_ref(narrow.data(), {2});
  ops_of(std::move(all));
  EXPECT_EQ(to_float(narrow[1]), 2.0f);
}

}  // namespace
}  // namespace hugectr::test
