// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstring>

#include "core/cpp/device/thread_pool.hpp"

/// How CPU loops copy the rows of a table that are named in no order.
///
/// A row in no order is a miss of every cache, and the next one's address is known long before its
/// turn comes. So each is fetched while those before it are copied: a core waits for many rows at a
/// time instead of for one. Rows that lie one after another the processor fetches by itself.
namespace hugectr {

inline constexpr std::size_t kRowsAhead = 16;  ///< enough to be there in time, few enough to stay

/// Rows that lie one after another.
struct RowsInOrder {
  char* data;
  std::size_t bytes;  ///< of a row
  char* operator()(std::size_t i) const { return data + i * bytes; }
};

template <class Rows>
void fetch_row(const Rows& rows, std::size_t i, std::size_t bytes) {
  const char* const row = rows(i);
  for (std::size_t byte = 0; row && byte < bytes; byte += 64) __builtin_prefetch(row + byte);
}
inline void fetch_row(const RowsInOrder&, std::size_t, std::size_t) {}

/// copy(to(i), from(i)) for i in [0, n), on all threads, `grain` of them at a time; of each row
/// that is read `bytes` are fetched, and of each that is written. to(i) may be null: row i is
/// passed over. to and from should hold what they need by value: what they refer to is read again
/// for every row, since the copy of a row might have changed it.
template <class To, class From, class Copy>
void copy_rows_by(ThreadPool& pool, std::size_t n, std::size_t grain, std::size_t bytes,
                  const To& to, const From& from, const Copy& copy) {
  parallel_for(pool, n, grain, [=](std::size_t begin, std::size_t end) {
    const To target = to;  // the loop's own, so that they can stay in registers
    const From source = from;
    const Copy copy_row = copy;
    const std::size_t size = bytes;
    for (std::size_t i = begin; i < end; ++i) {
      if (i + kRowsAhead < end) {
        fetch_row(source, i + kRowsAhead, size);
        fetch_row(target, i + kRowsAhead, size);
      }
      if (char* const row = target(i)) copy_row(row, source(i));
    }
  });
}

/// to(i) = from(i), rows of `bytes`.
template <class To, class From>
void copy_rows(ThreadPool& pool, std::size_t n, std::size_t grain, std::size_t bytes, const To& to,
               const From& from) {
  copy_rows_by(pool, n, grain, bytes, to, from,
               [bytes](char* row, const char* source) { std::memcpy(row, source, bytes); });
}

}  // namespace hugectr
