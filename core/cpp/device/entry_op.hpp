// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>

#include "core/cpp/base/fields.hpp"
#include "core/cpp/device/op.hpp"

/// How the entries of a catalogue become ops: one template of an op, made for each of them.
namespace hugectr {

/// Name of an entry's op, for a static constexpr member: its kOp and the suffix, ended by a 0.
template <class Entry, std::size_t N>
constexpr auto entry_op_name(const char (&suffix)[N]) {
  constexpr std::string_view stem = Entry::kOp;
  std::array<char, stem.size() + N> name{};
  std::copy_n(suffix, N, std::copy_n(stem.data(), stem.size(), name.begin()));
  return name;
}

/// Names the fields of the op's entry, as attributes.
template <class Entry>
void visit_fields(OpVisitor& v, Entry& entry) {
  Entry::visit(entry, [&](const Field& field, float& value) {
    double wide = value;
    v.attribute(field.name, wide);
    // Readers may visit one op from several threads: write only what changed.
    if (static_cast<float>(wide) != value) value = static_cast<float>(wide);
  });
}

/// For the op's check().
template <class Entry>
void check_fields(const char* op, const Entry& entry) {
  Entry::visit(entry, [&](const Field& field, float value) {
    checked_field(std::string(op) + ": " + field.name, field, value);
  });
}

}  // namespace hugectr
