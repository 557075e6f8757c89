// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/base/error.hpp"

namespace hugectr {

// Key functions: vtable and typeinfo of every error exist once, in libhugectr, so that what the
// plug-in throws is caught by the extension module.
Error::~Error() = default;
InvalidArgument::~InvalidArgument() = default;
OutOfMemory::~OutOfMemory() = default;
DeviceError::~DeviceError() = default;
DataError::~DataError() = default;
CommError::~CommError() = default;

}  // namespace hugectr
