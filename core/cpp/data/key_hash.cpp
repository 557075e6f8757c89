// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/key_hash.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string_view>

#include "core/cpp/base/error.hpp"

namespace hugectr {
namespace {

static_assert(std::endian::native == std::endian::little, "lanes are read as they lie");

constexpr std::size_t kHashGrain = 8192;  ///< values a piece: about 50 us

constexpr std::uint64_t kPrime1 = 0x9E3779B185EBCA87ull, kPrime2 = 0xC2B2AE3D27D4EB4Full,
                        kPrime3 = 0x165667B19E3779F9ull, kPrime4 = 0x85EBCA77C2B2AE63ull,
                        kPrime5 = 0x27D4EB2F165667C5ull;

template <class T>
T lane_at(const unsigned char* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

std::uint64_t xxh_round(std::uint64_t accumulator, std::uint64_t lane) {
  return std::rotl(accumulator + lane * kPrime2, 31) * kPrime1;
}

std::uint64_t merge_round(std::uint64_t accumulator, std::uint64_t lane) {
  return (accumulator ^ xxh_round(0, lane)) * kPrime1 + kPrime4;
}

std::uint64_t avalanche(std::uint64_t hash) {
  hash = (hash ^ (hash >> 33)) * kPrime2;
  hash = (hash ^ (hash >> 29)) * kPrime3;
  return hash ^ (hash >> 32);
}

/// XXH64 of the 8 bytes of one word.
std::uint64_t xxh64_word(std::uint64_t word, std::uint64_t seed) {
  const std::uint64_t hash = seed + kPrime5 + 8;
  return avalanche(std::rotl(hash ^ xxh_round(0, word), 27) * kPrime1 + kPrime4);
}

/// 63 bits of a hash; the reserved key, 2^63 - 1, gives way to its neighbour.
std::int64_t as_key(std::uint64_t hash) {
  return static_cast<std::int64_t>(
      std::min<std::uint64_t>(hash >> 1, (std::uint64_t{1} << 63) - 2));
}

std::int64_t key_of_float(double value, const FieldKeys& field) {
  if (std::isnan(value)) return field.missing;
  if (value == std::floor(value)) {
    if (value >= -0x1p63 && value < 0x1p63) {
      const auto whole = static_cast<std::int64_t>(value);
      return as_key(xxh64_word(static_cast<std::uint64_t>(whole), field.seed));
    }
    if (value >= 0x1p63 && value < 0x1p64) {
      return as_key(xxh64_word(static_cast<std::uint64_t>(value), field.seed));
    }
  }
  return as_key(xxh64_word(std::bit_cast<std::uint64_t>(value), ~field.seed));
}

/// What all kinds of columns share: keys of rows that are there come from `key_of(row)`.
struct Rows {
  ThreadPool& pool;
  const ArrowArray& array;
  const FieldKeys& field;
  std::int64_t* keys;

  std::size_t offset() const { return static_cast<std::size_t>(array.offset); }
  template <class T>
  const T* buffer(std::int64_t index) const {
    if (index >= array.n_buffers || !array.buffers || !array.buffers[index]) {
      throw DataError(concat("a column of ", array.length, " categories has no buffer ", index));
    }
    return static_cast<const T*>(array.buffers[index]);
  }

  template <class KeyOf>
  void each(const KeyOf& key_of) const {
    const bool whole = array.null_count == 0 || array.n_buffers < 1 || !array.buffers[0];
    const auto* valid = whole ? nullptr : static_cast<const std::uint8_t*>(array.buffers[0]);
    const auto rows = static_cast<std::size_t>(array.length);
    parallel_for(pool, rows, kHashGrain, [&](std::size_t begin, std::size_t end) {
      for (std::size_t row = begin; row < end; ++row) {
        const std::size_t at = offset() + row;
        const bool there = !valid || (valid[at / 8] >> (at % 8) & 1) != 0;
        keys[row] = there ? key_of(at) : field.missing;
      }
    });
  }
};

std::int64_t key_of_bytes(const unsigned char* data, std::size_t bytes, const FieldKeys& field) {
  return as_key(xxh64(data, bytes, field.seed));
}

template <class T>
void hash_numbers(const Rows& rows) {
  const T* values = rows.buffer<T>(1);
  const FieldKeys& field = rows.field;
  rows.each([values, &field](std::size_t at) {
    if constexpr (std::is_floating_point_v<T>) {
      return key_of_float(values[at], field);
    } else {
      return as_key(xxh64_word(static_cast<std::uint64_t>(values[at]), field.seed));
    }
  });
}

void hash_booleans(const Rows& rows) {
  const auto* bits = rows.buffer<std::uint8_t>(1);
  const FieldKeys& field = rows.field;
  rows.each([bits, &field](std::size_t at) {
    return as_key(xxh64_word(bits[at / 8] >> (at % 8) & 1, field.seed));
  });
}

constexpr const char* kOutside = "a column of text has offsets that fall or lie outside";

template <class Offset>
void hash_text(const Rows& rows) {
  const auto* offsets = rows.buffer<Offset>(1);
  // The last says how much text there is, as Arrow's own check of a column knows.
  const std::size_t first = rows.offset();
  const Offset least = offsets[first];
  const Offset most = offsets[first + static_cast<std::size_t>(rows.array.length)];
  if (least < 0 || most < least) throw DataError(kOutside);
  const unsigned char* text = least == most ? nullptr : rows.buffer<unsigned char>(2);
  const FieldKeys& field = rows.field;
  rows.each([=, &field](std::size_t at) {
    const Offset begin = offsets[at], end = offsets[at + 1];
    if (begin < least || end < begin || end > most) throw DataError(kOutside);
    return key_of_bytes(text + begin, static_cast<std::size_t>(end - begin), field);
  });
}

/// Views: a length, then up to 12 bytes of text, or 4 of them, a buffer and an offset in it. The
/// last buffer has the sizes of those before it.
void hash_views(const Rows& rows) {
  constexpr std::int32_t kInline = 12;
  const auto* views = rows.buffer<unsigned char>(1);
  const std::int64_t most = rows.array.n_buffers - 3;
  const auto* sizes = most > 0 ? rows.buffer<std::int64_t>(rows.array.n_buffers - 1) : nullptr;
  const FieldKeys& field = rows.field;
  rows.each([&](std::size_t at) {
    const unsigned char* view = views + 16 * at;
    const auto length = lane_at<std::int32_t>(view);
    if (length >= 0 && length <= kInline) {
      return key_of_bytes(view + 4, static_cast<std::size_t>(length), field);
    }
    const auto index = lane_at<std::int32_t>(view + 8), begin = lane_at<std::int32_t>(view + 12);
    const bool inside = length >= 0 && index >= 0 && index < most && begin >= 0 &&
                        static_cast<std::int64_t>(begin) + length <= sizes[index];
    if (!inside) throw DataError("a column of text has views that lie outside");
    const auto* text = rows.buffer<unsigned char>(2 + index);
    return key_of_bytes(text + begin, static_cast<std::size_t>(length), field);
  });
}

}  // namespace

std::uint64_t xxh64(const void* data, std::size_t bytes, std::uint64_t seed) {
  const auto* at = static_cast<const unsigned char*>(data);
  std::size_t left = bytes;
  std::uint64_t hash = seed + kPrime5;
  if (left >= 32) {
    std::uint64_t a = seed + kPrime1 + kPrime2, b = seed + kPrime2, c = seed, d = seed - kPrime1;
    for (; left >= 32; left -= 32, at += 32) {
      a = xxh_round(a, lane_at<std::uint64_t>(at));
      b = xxh_round(b, lane_at<std::uint64_t>(at + 8));
      c = xxh_round(c, lane_at<std::uint64_t>(at + 16));
      d = xxh_round(d, lane_at<std::uint64_t>(at + 24));
    }
    hash = std::rotl(a, 1) + std::rotl(b, 7) + std::rotl(c, 12) + std::rotl(d, 18);
    for (const std::uint64_t lane : {a, b, c, d}) hash = merge_round(hash, lane);
  }
  hash += bytes;
  for (; left >= 8; left -= 8, at += 8) {
    hash = std::rotl(hash ^ xxh_round(0, lane_at<std::uint64_t>(at)), 27) * kPrime1 + kPrime4;
  }
  if (left >= 4) {
    hash = std::rotl(hash ^ lane_at<std::uint32_t>(at) * kPrime1, 23) * kPrime2 + kPrime3;
    left -= 4;
    at += 4;
  }
  for (; left > 0; --left, ++at) hash = std::rotl(hash ^ *at * kPrime5, 11) * kPrime1;
  return avalanche(hash);
}

void hash_keys(ThreadPool& pool, const ArrowSchema& schema, const ArrowArray& array,
               const FieldKeys& field, std::int64_t* keys) {
  const std::string_view format = schema.format ? schema.format : "";
  if (array.length < 0 || array.offset < 0) throw DataError("a column has a negative length");
  if (array.length == 0) return;
  const Rows rows{pool, array, field, keys};
  if (format == "n") {  // a column of nulls has no buffers
    std::fill_n(keys, array.length, field.missing);
    return;
  }
  if (schema.dictionary) throw DataError("a column of categories is dictionary-encoded still");
  if (format == "u" || format == "z") return hash_text<std::int32_t>(rows);
  if (format == "U" || format == "Z") return hash_text<std::int64_t>(rows);
  if (format == "vu" || format == "vz") return hash_views(rows);
  if (format == "b") return hash_booleans(rows);
  if (format == "c") return hash_numbers<std::int8_t>(rows);
  if (format == "C") return hash_numbers<std::uint8_t>(rows);
  if (format == "s") return hash_numbers<std::int16_t>(rows);
  if (format == "S") return hash_numbers<std::uint16_t>(rows);
  if (format == "i") return hash_numbers<std::int32_t>(rows);
  if (format == "I") return hash_numbers<std::uint32_t>(rows);
  if (format == "l") return hash_numbers<std::int64_t>(rows);
  if (format == "L") return hash_numbers<std::uint64_t>(rows);
  if (format == "f") return hash_numbers<float>(rows);
  if (format == "g") return hash_numbers<double>(rows);
  throw DataError(concat("a column of Arrow type \"", format,
                         "\" has no keys; text, binary, integers, floats and booleans have"));
}

void replace_unknown_keys(ThreadPool& pool, std::span<std::int64_t> keys,
                          std::span<const std::int64_t> known, std::int64_t missing,
                          std::int64_t rare) {
  parallel_for(pool, keys.size(), kHashGrain, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      if (keys[i] == missing) continue;
      if (!std::binary_search(known.begin(), known.end(), keys[i])) keys[i] = rare;
    }
  });
}

}  // namespace hugectr
