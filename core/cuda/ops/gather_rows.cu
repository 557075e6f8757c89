// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/ops/gather_scatter.cuh"

namespace hugectr::cuda {
namespace {

const OpRegistration<GatherRows> gather_rows_cuda{DeviceType::Cuda, &gather_scatter<GatherRows>};
const SeveralRegistration<GatherRows> several_gather_rows_cuda{DeviceType::Cuda,
                                                               &gather_scatter_many<GatherRows>};

}  // namespace
}  // namespace hugectr::cuda
