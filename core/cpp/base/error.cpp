// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/base/error.hpp"

#include <new>
#include <sstream>

namespace hugectr {

// Key functions: vtable and typeinfo of every error exist once, in libhugectr, so that what the
// plug-in throws is caught by the extension module.
Error::~Error() = default;
InvalidArgument::~InvalidArgument() = default;
OutOfMemory::~OutOfMemory() = default;
DeviceError::~DeviceError() = default;
DataError::~DataError() = default;
CommError::~CommError() = default;

const char* cause_of(const std::exception& error) noexcept {
  const bool no_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
  return no_memory ? "out of host memory" : error.what();
}

std::string joined(std::initializer_list<MessagePart> parts) {
  std::ostringstream stream;
  for (const MessagePart& part : parts) part.put(stream);
  return stream.str();
}

void throw_invalid_argument(std::initializer_list<MessagePart> parts) {
  throw InvalidArgument(joined(parts));
}

}  // namespace hugectr
