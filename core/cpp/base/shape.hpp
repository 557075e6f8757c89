// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <vector>

#include "core/cpp/base/export.hpp"

namespace hugectr {

/// Dimensions of a tensor, outermost first. Dimension 0 of an activation is the sample.
///
/// A std::vector of at most kMost numbers, held in place: a tensor is copied with every op it takes
/// part in, and that must neither allocate nor be code of its own wherever it happens. More
/// dimensions throw InvalidArgument.
class Shape {
 public:
  using value_type = std::size_t;
  using size_type = std::size_t;
  using iterator = std::size_t*;
  using const_iterator = const std::size_t*;
  static constexpr std::size_t kMost = 8;

  Shape() = default;
  Shape(std::initializer_list<std::size_t> sizes) { assign(sizes.begin(), sizes.end()); }
  explicit Shape(std::size_t count, std::size_t each = 0) { resize(count, each); }
  template <class Iterator>
    requires(!std::is_integral_v<Iterator>)
  Shape(Iterator first, Iterator last) {
    assign(first, last);
  }
  Shape(const std::vector<std::size_t>& sizes) {  // NOLINT(google-explicit-constructor)
    assign(sizes.begin(), sizes.end());
  }
  operator std::vector<std::size_t>() const {  // NOLINT(google-explicit-constructor)
    return {begin(), end()};
  }

  std::size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  iterator begin() { return sizes_; }
  iterator end() { return sizes_ + count_; }
  const_iterator begin() const { return sizes_; }
  const_iterator end() const { return sizes_ + count_; }
  const std::size_t* data() const { return sizes_; }
  std::size_t& operator[](std::size_t i) { return sizes_[i]; }
  std::size_t operator[](std::size_t i) const { return sizes_[i]; }
  std::size_t& front() { return sizes_[0]; }
  std::size_t front() const { return sizes_[0]; }
  std::size_t& back() { return sizes_[count_ - 1]; }
  std::size_t back() const { return sizes_[count_ - 1]; }

  void clear() { count_ = 0; }
  void resize(std::size_t count, std::size_t each = 0) {
    check_count(count);
    for (; count_ < count; ++count_) sizes_[count_] = each;
    count_ = count;
  }
  void push_back(std::size_t size) { resize(count_ + 1, size); }
  void pop_back() { --count_; }
  void insert(iterator place, std::size_t size) {
    const std::size_t at = static_cast<std::size_t>(place - begin());
    push_back(size);
    std::rotate(begin() + at, end() - 1, end());
  }
  void insert(iterator place, std::initializer_list<std::size_t> sizes) {
    for (const std::size_t size : sizes) insert(place++, size);
  }
  void erase(iterator place) {
    std::copy(place + 1, end(), place);
    --count_;
  }
  template <class Iterator>
  void assign(Iterator first, Iterator last) {
    clear();
    for (; first != last; ++first) push_back(static_cast<std::size_t>(*first));
  }

  friend bool operator==(const Shape& a, const Shape& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  static void check_count(std::size_t count) {
    if (count > kMost) throw_too_many(count);
  }
  [[noreturn]] HCTR_API static void throw_too_many(std::size_t count);

  std::size_t count_ = 0;
  std::size_t sizes_[kMost] = {};
};

/// Product of the dimensions; 1 for a scalar (empty) shape.
HCTR_API std::size_t num_elements(const Shape& shape);

/// "(64, 26, 16)"
HCTR_API std::string to_string(const Shape& shape);

}  // namespace hugectr
