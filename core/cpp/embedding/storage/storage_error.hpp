// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "core/cpp/base/error.hpp"

namespace hugectr {

/// A disk that rows lie on does not give or take them. Of a job one process knows of it, unlike of
/// damaged data, which all read.
class StorageError : public DataError {
 public:
  using DataError::DataError;
};

}  // namespace hugectr
