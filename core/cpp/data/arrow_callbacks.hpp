// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cpp/data/arrow_format.hpp"

namespace hugectr {

/// An ArrowDecoder as plain functions, for bindings. A text in `error` becomes a DataError.
struct ArrowCallbacks {
  void* self = nullptr;
  void (*open)(void* self, const std::string& source, ArrowSource* found,
               std::string* error) = nullptr;
  void (*decode)(void* self, std::size_t block, ArrowSchema* schema, ArrowArray* array,
                 std::string* error) = nullptr;
  void (*drop)(void* self) = nullptr;  ///< nobody calls the others any more
};

inline ArrowDecoder make_arrow_decoder(const ArrowCallbacks& callbacks) {
  const auto owner = std::shared_ptr<void>(callbacks.self, callbacks.drop);
  ArrowDecoder decoder;
  decoder.open = [callbacks, owner](const std::string& source) {
    ArrowSource found;
    std::string error;
    callbacks.open(owner.get(), source, &found, &error);
    if (!error.empty()) throw DataError(error);
    return found;
  };
  decoder.decode = [callbacks, owner](std::size_t block, ArrowSchema* schema, ArrowArray* array) {
    std::string error;
    callbacks.decode(owner.get(), block, schema, array, &error);
    if (!error.empty()) throw DataError(error);
  };
  return decoder;
}

}  // namespace hugectr
