// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/cpp/base/error.hpp"
#include "core/cpp/base/export.hpp"
#include "core/cpp/data/arrow_abi.hpp"

namespace hugectr {

/// Types of numbers that columns may have.
enum class ArrowType {
  Bool,
  Int8,
  UInt8,
  Int16,
  UInt16,
  Int32,
  UInt32,
  Int64,
  UInt64,
  Float,
  Double
};

/// One column of a record batch: a number a row, or a list of numbers a row. Everything a reader
/// relies on (types, buffers that are there, list offsets that rise and stay inside) is checked
/// when it is made, so that looking at it can not leave the buffers.
class HCTR_API ArrowColumn {
 public:
  /// `where` (file and block) begins the text of errors. Throws DataError naming the column.
  ArrowColumn(const ArrowSchema& schema, const ArrowArray& array, std::size_t rows,
              const std::string& where);

  const std::string& name() const { return name_; }
  ArrowType type() const { return type_; }
  bool is_list() const { return list_ != List::None; }
  bool has_nulls() const { return validity_ != nullptr || values_validity_ != nullptr; }
  /// True when the row itself, or a number in its list, is null.
  bool is_null(std::size_t row) const;
  /// Numbers of a row: values [begin(row), end(row)). One a row for plain columns.
  std::size_t begin(std::size_t row) const;
  std::size_t end(std::size_t row) const { return begin(row + 1); }
  /// First number of row 0, as the C++ type of type(); bits for Bool.
  template <class T>
  const T* values() const {
    return static_cast<const T*>(values_);
  }
  std::size_t values_offset() const { return values_offset_; }

 private:
  enum class List { None, Small, Large, Fixed };
  void open_values(const ArrowSchema& schema, const ArrowArray& array);
  void check_offsets(const ArrowArray& array, std::size_t rows);
  [[noreturn]] void fail(const std::string& what) const;

  std::string name_, where_;
  ArrowType type_ = ArrowType::Int64;
  List list_ = List::None;
  const std::uint8_t* validity_ = nullptr;         ///< of the rows, or null: none is null
  const std::uint8_t* values_validity_ = nullptr;  ///< of the numbers of lists
  const void* offsets_ = nullptr;
  const void* values_ = nullptr;
  std::size_t row_offset_ = 0, values_offset_ = 0, values_length_ = 0, fixed_size_ = 1;
};

inline bool arrow_bit(const void* bits, std::size_t i) {
  return (static_cast<const std::uint8_t*>(bits)[i / 8] >> (i % 8) & 1) != 0;
}

/// Calls f(get) where get(i) is number i of the column (values_offset() included) as its own type.
template <class F>
void with_arrow_values(const ArrowColumn& column, const F& f) {
  const std::size_t offset = column.values_offset();
  const auto plain = [&]<class T>(T) {
    const T* values = column.values<T>() + offset;
    f([values](std::size_t i) { return values[i]; });
  };
  switch (column.type()) {
    case ArrowType::Bool: {
      const void* bits = column.values<void>();
      return f([bits, offset](std::size_t i) {
        return static_cast<std::uint8_t>(arrow_bit(bits, offset + i));
      });
    }
    case ArrowType::Int8:
      return plain(std::int8_t{});
    case ArrowType::UInt8:
      return plain(std::uint8_t{});
    case ArrowType::Int16:
      return plain(std::int16_t{});
    case ArrowType::UInt16:
      return plain(std::uint16_t{});
    case ArrowType::Int32:
      return plain(std::int32_t{});
    case ArrowType::UInt32:
      return plain(std::uint32_t{});
    case ArrowType::Int64:
      return plain(std::int64_t{});
    case ArrowType::UInt64:
      return plain(std::uint64_t{});
    case ArrowType::Float:
      return plain(float{});
    case ArrowType::Double:
      return plain(double{});
  }
}

}  // namespace hugectr
