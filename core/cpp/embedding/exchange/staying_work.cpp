// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/exchange/staying_work.hpp"

#include <limits>

#include "core/cpp/base/bytes_variable.hpp"

namespace hugectr {

StayingWork::StayingWork(GPUResource& gpu) : gpu_(gpu) {
  const bool beside = gpu.device().type != DeviceType::Cpu;
  constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();
  apart_bytes_ = bytes_variable("HUGECTR_APART_BYTES", beside ? std::size_t{8} << 20 : kNever);
  if (!beside) return;
  gpu.staying_stream();
  gpu.filling_stream();
  before_ = gpu.create_event();
  done_ = gpu.create_event();
}

}  // namespace hugectr
