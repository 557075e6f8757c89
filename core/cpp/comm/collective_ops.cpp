// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/comm/collective_ops.hpp"

#include "core/cpp/comm/communicator.hpp"

namespace hugectr {

void AllReduce::check() const {
  HCTR_CHECK(data.dtype == TensorScalarType::Float32 || data.dtype == TensorScalarType::Float64,
             "all_reduce: data must be float32 or float64, not ", to_string(data.dtype));
  HCTR_CHECK(data.contiguous(), "all_reduce: data of shape ", to_string(data.shape),
             " must be contiguous, its rows lie ", data.row_stride, " elements apart");
}

namespace {

void all_reduce_kernel(const OpContext& context, const AllReduce& op) {
  HCTR_CHECK(context.communicator != nullptr && context.stream != nullptr,
             "all_reduce needs a communicator and a stream: take the context from a GPUResource");
  context.communicator->all_reduce(op.data, *context.stream);
}

const OpRegistration<AllReduce> all_reduce_cpu{DeviceType::Cpu, &all_reduce_kernel};
const OpRegistration<AllReduce> all_reduce_cuda{DeviceType::Cuda, &all_reduce_kernel};

}  // namespace
}  // namespace hugectr
