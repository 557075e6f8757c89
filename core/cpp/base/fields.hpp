// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <limits>
#include <string>
#include <vector>

#include "core/cpp/base/export.hpp"

/// Settings of the entries of a catalogue: sets of fields that describe themselves. An entry
/// derives from the sets it needs.
namespace hugectr {

inline constexpr float kUnbounded = std::numeric_limits<float>::infinity();

/// One setting, a float. Its default is that of the member.
struct Field {
  const char* name;
  float minimum;  ///< least value that is allowed
  float below;    ///< values stay below it; kUnbounded: none
  const char* doc;
};

/// What an entry of a catalogue derives from: its settings, as members. A set is a struct with a
///   template <class Self, class F> static void visit(Self& self, const F& f);
/// that calls f(field, value) for every field; `self` is a set, const or not.
template <class... Sets>
struct Fields : Sets... {
  /// Takes these settings of a struct that derives from the same sets.
  template <class From>
  void take([[maybe_unused]] const From& from) {
    ((static_cast<Sets&>(*this) = static_cast<const Sets&>(from)), ...);
  }
  /// f(field, value) for every field of all sets; `self` derives from them.
  template <class Self, class F>
  static void visit([[maybe_unused]] Self& self, [[maybe_unused]] const F& f) {
    (Sets::visit(self, f), ...);
  }
};

/// A field as bindings and documentation see it.
struct FieldDescription {
  std::string name;
  double initial = 0;  ///< the default
  double minimum = 0;
  double below = 0;  ///< values stay below it; infinity: none
  std::string doc;
};

template <class Entry>
std::vector<FieldDescription> describe_fields(const Entry& entry) {
  std::vector<FieldDescription> all;
  Entry::visit(entry, [&](const Field& field, float value) {
    all.push_back({field.name, value, field.minimum, field.below, field.doc});
  });
  return all;
}

/// The value as rules compute with it. Throws InvalidArgument that begins with `where` unless it
/// lies inside the field's bounds, also when it is rounded to float32.
HCTR_API float checked_field(const std::string& where, const Field& field, double value);

}  // namespace hugectr
