// SPDX-License-Identifier: Apache-2.0
#include "core/cuda/device/side_streams.hpp"

#include "core/cpp/base/error.hpp"

namespace hugectr::cuda {

void SideStreams::fork(CudaStream& main, std::size_t count) {
  HCTR_CHECK(count <= kMost, "a stream has at most ", kMost, " beside it, asked for ", count);
  if (!begun_) begun_ = std::make_unique<CudaEvent>(device_.index);
  while (sides_.size() < count) {
    sides_.push_back({std::make_unique<CudaStream>(device_, "beside", priority_),
                      std::make_unique<CudaEvent>(device_.index)});
  }
  main.record(*begun_);
  for (std::size_t i = 0; i < count; ++i) stream(i).wait(*begun_);
}

void SideStreams::join(CudaStream& main, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    stream(i).record(*sides_.at(i).done);
    main.wait(*sides_.at(i).done);
  }
}

}  // namespace hugectr::cuda
