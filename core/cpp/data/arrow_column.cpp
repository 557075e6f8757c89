// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/arrow_column.hpp"

#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

namespace hugectr {
namespace {

std::optional<ArrowType> number_type(const char* format) {
  if (!format || format[0] == '\0' || format[1] != '\0') return std::nullopt;
  switch (format[0]) {
    case 'b':
      return ArrowType::Bool;
    case 'c':
      return ArrowType::Int8;
    case 'C':
      return ArrowType::UInt8;
    case 's':
      return ArrowType::Int16;
    case 'S':
      return ArrowType::UInt16;
    case 'i':
      return ArrowType::Int32;
    case 'I':
      return ArrowType::UInt32;
    case 'l':
      return ArrowType::Int64;
    case 'L':
      return ArrowType::UInt64;
    case 'f':
      return ArrowType::Float;
    case 'g':
      return ArrowType::Double;
    default:
      return std::nullopt;
  }
}

const std::uint8_t* validity_of(const ArrowArray& array) {
  if (array.null_count == 0 || array.n_buffers < 1 || !array.buffers) return nullptr;
  return static_cast<const std::uint8_t*>(array.buffers[0]);
}

bool sane(const ArrowArray& array) {
  return array.length >= 0 && array.offset >= 0 && array.n_buffers >= 0 && array.n_children >= 0;
}

}  // namespace

ArrowColumn::ArrowColumn(const ArrowSchema& schema, const ArrowArray& array, std::size_t rows,
                         const std::string& where)
    : name_(schema.name ? schema.name : ""), where_(where) {
  if (!sane(array) || static_cast<std::uint64_t>(array.length) < rows) {
    fail(concat("has ", array.length, " rows, the block has ", rows));
  }
  if (schema.dictionary) fail("is dictionary-encoded; decode it to numbers first");
  const std::string_view format = schema.format ? schema.format : "";
  validity_ = validity_of(array);
  row_offset_ = static_cast<std::size_t>(array.offset);
  if (format == "+l") list_ = List::Small;
  if (format == "+L") list_ = List::Large;
  if (format.substr(0, 3) == "+w:") {
    list_ = List::Fixed;
    const long size = std::strtol(schema.format + 3, nullptr, 10);
    if (size < 0) fail(concat("is a list of ", size, " numbers"));
    fixed_size_ = static_cast<std::size_t>(size);
  }
  if (list_ == List::None) {
    open_values(schema, array);
    values_offset_ = row_offset_;
    return;
  }
  if (schema.n_children != 1 || array.n_children != 1 || !array.children[0] ||
      !sane(*array.children[0])) {
    fail("is a list without numbers");
  }
  open_values(*schema.children[0], *array.children[0]);
  values_validity_ = validity_of(*array.children[0]);
  values_offset_ = static_cast<std::size_t>(array.children[0]->offset);
  values_length_ = static_cast<std::size_t>(array.children[0]->length);
  check_offsets(array, rows);
}

void ArrowColumn::open_values(const ArrowSchema& schema, const ArrowArray& array) {
  const std::optional<ArrowType> type = number_type(schema.format);
  if (!type || schema.dictionary) {
    const std::string_view format = schema.format ? schema.format : "";
    if (schema.dictionary || format == "u" || format == "U" || format == "vu") {
      fail(
          "holds text; columns of numbers, or of lists of numbers, can be read: encode its "
          "categories first (hugectr.data.Schema or hugectr.data.from_frame does), or if they are "
          "numbers, cast them");
    }
    fail(concat("has Arrow type \"", format,
                "\"; columns of numbers, or of lists of numbers, can be read"));
  }
  type_ = *type;
  if (array.length == 0) return;
  if (array.n_buffers < 2 || !array.buffers || !array.buffers[1]) fail("has no values");
  values_ = array.buffers[1];
}

void ArrowColumn::check_offsets(const ArrowArray& array, std::size_t rows) {
  if (list_ == List::Fixed) {
    if ((row_offset_ + rows) * fixed_size_ > values_length_) fail("has lists beyond its numbers");
    return;
  }
  if (rows == 0) return;
  if (array.n_buffers < 2 || !array.buffers || !array.buffers[1]) fail("has no list offsets");
  offsets_ = array.buffers[1];
  std::size_t before = begin(0);
  bool rising = before <= values_length_;
  for (std::size_t row = 1; row <= rows; ++row) {
    const std::size_t next = begin(row);
    rising &= before <= next;
    before = next;
  }
  if (!rising || before > values_length_) fail("has list offsets that fall or lie outside");
}

std::size_t ArrowColumn::begin(std::size_t row) const {
  switch (list_) {
    case List::None:
      return row;
    case List::Small:
      return static_cast<std::size_t>(
          static_cast<const std::int32_t*>(offsets_)[row_offset_ + row]);
    case List::Large:
      return static_cast<std::size_t>(
          static_cast<const std::int64_t*>(offsets_)[row_offset_ + row]);
    case List::Fixed:
      return (row_offset_ + row) * fixed_size_;
  }
  return 0;
}

bool ArrowColumn::is_null(std::size_t row) const {
  if (validity_ && !arrow_bit(validity_, row_offset_ + row)) return true;
  if (!values_validity_) return false;
  for (std::size_t i = begin(row); i < end(row); ++i) {
    if (!arrow_bit(values_validity_, values_offset_ + i)) return true;
  }
  return false;
}

void ArrowColumn::fail(const std::string& what) const {
  throw DataError(concat(where_, ", column '", name_, "' ", what));
}

}  // namespace hugectr
