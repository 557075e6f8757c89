// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/device/op_on_host_tensors.hpp"

#include "core/cpp/base/error.hpp"
#include "core/cpp/device/thread_pool.hpp"
#include "tests/cuda/gpu.hpp"

namespace hugectr {
namespace {

using OpOnHostTensorsTest = GpuTest<1>;

/// The first elements of every row of y become those of x, by a copy per row; no kernel needed.
struct CopyRowsTestOp {
  static constexpr const char* kName = "test_copy_rows";
  TensorRef x, y;
  void visit(OpVisitor& v) {
    v.tensor("x", Access::In, x);
    v.tensor("y", Access::Out, y);
  }
  void check() const { HCTR_CHECK(x.shape == y.shape, "test_copy_rows: shapes differ"); }
};

const OpRegistration<CopyRowsTestOp> copy_rows_cuda{
    DeviceType::Cuda, [](const OpContext& context, const CopyRowsTestOp& op) {
      EXPECT_EQ(op.x.device, context.device);
      for (std::size_t r = 0; r < op.x.rows(); ++r) {
        context.stream->copy(op.y.row<float>(r), op.x.row<float>(r), op.x.row_size() * 4);
      }
    }};

TEST_F(OpOnHostTensorsTest, StridedRowsKeepWhatLiesBetweenThem) {
  ThreadPool pool(1);
  const std::vector<float> x{1, 2, 3, 4, 5, 6};
  std::vector<float> y(12, 7.0f);
  CopyRowsTestOp op{make_ref(const_cast<float*>(x.data()), {3, 2}), make_ref(y.data() + 1, {3, 2})};
  op.y.row_stride = 4;
  run_on_host_tensors(op, device, pool);
  EXPECT_EQ(y, (std::vector<float>{7, 1, 2, 7, 7, 3, 4, 7, 7, 5, 6, 7}));
}

TEST_F(OpOnHostTensorsTest, ColumnsOfOneTensorStayInOneTensor) {
  ThreadPool pool(1);
  std::vector<float> wide{1, 2, 0, 0, 3, 4, 0, 0};
  CopyRowsTestOp op{make_ref(wide.data(), {2, 2}), make_ref(wide.data() + 2, {2, 2})};
  op.x.row_stride = op.y.row_stride = 4;
  run_on_host_tensors(op, device, pool);
  EXPECT_EQ(wide, (std::vector<float>{1, 2, 1, 2, 3, 4, 3, 4}));
}

TEST_F(OpOnHostTensorsTest, AnOpThatIsRefusedChangesNothing) {
  ThreadPool pool(1);
  std::vector<float> x{1, 2}, y{3, 4, 5};
  const CopyRowsTestOp op{make_ref(x.data(), {1, 2}), make_ref(y.data(), {1, 3})};
  EXPECT_THROW(run_on_host_tensors(op, device, pool), InvalidArgument);
  EXPECT_EQ(y, (std::vector<float>{3, 4, 5}));
  const CopyRowsTestOp empty{make_ref(x.data(), {0, 2}), make_ref(y.data(), {0, 2})};
  run_on_host_tensors(empty, device, pool);
}

}  // namespace
}  // namespace hugectr
