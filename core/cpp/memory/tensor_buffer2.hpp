// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/base/device_id.hpp"
#include "core/cpp/base/export.hpp"

namespace hugectr {

/// What a Tensor2 shares ownership of: a piece of some arena or of growable memory.
class HCTR_API TensorBuffer2 {
 public:
  virtual ~TensorBuffer2();
  virtual bool allocated() const = 0;
  virtual void* get_ptr() = 0;
  virtual DeviceId device() const = 0;
};

}  // namespace hugectr
