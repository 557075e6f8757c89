// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/cpp/base/export.hpp"
#include "core/cpp/device/op.hpp"

namespace hugectr {

/// What an attribute can be given as. Numbers convert where nothing is lost: an int to a float or
/// an enum, 0 and 1 to a bool, 2.0 to an int; lists likewise, an empty list to either kind.
using OpAttribute =
    std::variant<bool, std::int64_t, double, std::vector<std::int64_t>, std::vector<double>>;

/// Fills an op whose type is only known by name: how Python runs any op.
class HCTR_API OpByName {
 public:
  /// Throws InvalidArgument for an unknown op.
  explicit OpByName(std::string_view name);

  /// Throws InvalidArgument listing the op's fields when there is no such tensor.
  void set_tensor(const std::string& field, TensorRef ref);
  /// Sets a field that is a list of tensors.
  void set_tensors(const std::string& field, std::vector<TensorRef> refs);
  /// Throws InvalidArgument for an unknown field or a value of the wrong kind.
  void set_attribute(const std::string& field, const OpAttribute& value);

  /// Field -> "in", "out", "inout" or "attribute".
  std::map<std::string, std::string> fields();

  /// The op. Throws InvalidArgument naming a required tensor that was not set.
  AnyOp take();

 private:
  [[noreturn]] void throw_unknown(const std::string& field, const char* kind);

  AnyOp op_;
};

}  // namespace hugectr
