// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/cpp/base/export.hpp"

namespace hugectr {

/// A value of a JSON text (RFC 8259). Whoever asks for something says `where` that is, and a value
/// of another kind throws DataError naming the place.
class HCTR_API Json {
 public:
  using Member = std::pair<std::string, Json>;
  /// A number as it is written there: what is made of it is for who asks. Part of the text.
  struct Number {
    std::string_view text;
  };
  using Value = std::variant<std::nullptr_t, bool, Number, std::string, std::vector<Json>,
                             std::vector<Member>>;

  Json();
  explicit Json(Value value);
  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;
  ~Json();

  const Value& value() const { return value_; }
  bool is_null() const { return value_.index() == 0; }

  bool boolean(const std::string& where) const;
  const std::string& text(const std::string& where) const;
  /// From low to high, without a fraction or an exponent.
  std::int64_t integer(const std::string& where, std::int64_t low = 0,
                       std::int64_t high = INT64_MAX) const;
  /// Finite.
  double number(const std::string& where) const;
  const std::vector<Json>& list(const std::string& where) const;
  std::vector<std::string> texts(const std::string& where) const;
  const std::vector<Member>& members(const std::string& where) const;
  /// Of an object; null: it has none of that name.
  const Json* find(const std::string& name, const std::string& where) const;
  /// Of an object that must have it.
  const Json& at(const std::string& name, const std::string& where) const;

 private:
  Value value_;
};

/// Parses a text that outlives what is returned. Names of an object come once, and arrays and
/// objects lie at most 64 deep; bytes are ASCII, other characters \u escapes, as Python's json
/// writes them. Throws DataError with the place in bytes.
HCTR_API Json parse_json(std::string_view text);

/// The text that Python's json.dumps(value, sort_keys=True) gives for the value, numbers as they
/// were written, without the member `but` of the outermost object.
HCTR_API std::string sorted_json_text(const Json& value, std::string_view but);

}  // namespace hugectr
