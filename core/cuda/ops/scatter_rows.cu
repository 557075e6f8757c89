// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/ops/gather_scatter.cuh"

namespace hugectr::cuda {
namespace {

const OpRegistration<ScatterRows> scatter_rows_cuda{DeviceType::Cuda, &gather_scatter<ScatterRows>};
const SeveralRegistration<ScatterRows> several_scatter_rows_cuda{DeviceType::Cuda,
                                                                 &gather_scatter_many<ScatterRows>};

}  // namespace
}  // namespace hugectr::cuda
