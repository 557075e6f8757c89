// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <exception>
#include <initializer_list>
#include <ostream>
#include <stdexcept>
#include <string>

#include "core/cpp/base/export.hpp"

/// Error types of the core. A message names the thing (layer, table, slot, file and byte offset,
/// key) and the way out. Python sees them as subclasses of ValueError, MemoryError, RuntimeError.
namespace hugectr {

/// Base of everything the core throws on purpose.
class HCTR_API Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
  Error(const Error&) = default;
  Error& operator=(const Error&) = default;
  ~Error() override;
};

/// A caller passed something that can not work (Python: ValueError).
class HCTR_API InvalidArgument : public Error {
 public:
  using Error::Error;
  InvalidArgument(const InvalidArgument&) = default;
  InvalidArgument& operator=(const InvalidArgument&) = default;
  ~InvalidArgument() override;
};

/// A memory request or a table budget can not be met (Python: MemoryError).
class HCTR_API OutOfMemory : public Error {
 public:
  using Error::Error;
  OutOfMemory(const OutOfMemory&) = default;
  OutOfMemory& operator=(const OutOfMemory&) = default;
  ~OutOfMemory() override;
};

/// A device, driver or kernel failed or is missing (Python: RuntimeError).
class HCTR_API DeviceError : public Error {
 public:
  using Error::Error;
  DeviceError(const DeviceError&) = default;
  DeviceError& operator=(const DeviceError&) = default;
  ~DeviceError() override;
};

/// Input data or a file is damaged; carries file and byte offset in its text (Python:
/// RuntimeError).
class HCTR_API DataError : public Error {
 public:
  using Error::Error;
  DataError(const DataError&) = default;
  DataError& operator=(const DataError&) = default;
  ~DataError() override;
};

/// A collective failed, or another rank failed first (Python: RuntimeError).
class HCTR_API CommError : public Error {
 public:
  using Error::Error;
  CommError(const CommError&) = default;
  CommError& operator=(const CommError&) = default;
  ~CommError() override;
};

/// What an error says, for those who are told of it; that of std::bad_alloc, whose own text is the
/// name of a type, that there was no memory. Lives as long as the error.
HCTR_API const char* cause_of(const std::exception& error) noexcept;

/// One part of a message: refers to anything that operator<< takes, for the length of a call. What
/// is compiled for it is a function a type, not one for each combination of types in a message.
class MessagePart {
 public:
  MessagePart(const char* text)  // NOLINT(google-explicit-constructor)
      : object_(text), put_([](std::ostream& stream, const void* object) {
          stream << static_cast<const char*>(object);
        }) {}
  template <class T>
  MessagePart(const T& object)  // NOLINT(google-explicit-constructor)
      : object_(&object),
        put_([](std::ostream& stream, const void* any) { stream << *static_cast<const T*>(any); }) {
  }
  void put(std::ostream& stream) const { put_(stream, object_); }

 private:
  const void* object_;
  void (*put_)(std::ostream&, const void*);
};

/// The parts one after the other, as operator<< writes them.
HCTR_API std::string joined(std::initializer_list<MessagePart> parts);
[[noreturn]] HCTR_API void throw_invalid_argument(std::initializer_list<MessagePart> parts);

/// Joins its arguments; the way every message of the core is put together.
template <class... Parts>
std::string concat(const Parts&... parts) {
  return joined({MessagePart(parts)...});
}

}  // namespace hugectr

/// Throws InvalidArgument with the given parts unless the condition holds.
#define HCTR_CHECK(condition, ...)                      \
  do {                                                  \
    if (!(condition)) {                                 \
      ::hugectr::throw_invalid_argument({__VA_ARGS__}); \
    }                                                   \
  } while (0)
