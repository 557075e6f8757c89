// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/base/crc32.hpp"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hugectr {
namespace {

using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

/// tables[k][b]: what the byte b does to the sum when k bytes follow it.
constexpr Tables make_tables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t sum = byte;
    for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (sum & 1 ? 0xEDB88320U : 0U);
    tables[0][byte] = sum;
  }
  for (std::size_t k = 1; k < tables.size(); ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[k - 1][byte];
      tables[k][byte] = before >> 8 ^ tables[0][before & 255];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

#if defined(__x86_64__)
/// x^n modulo the polynomial, its bits in the order of a sum's, times x: what carries bits over n
/// others when they are multiplied without carry.
constexpr long long carried(int n) {
  std::uint64_t power = 0x80000000U;
  for (; n > 0; --n) power = power >> 1 ^ (power & 1 ? 0xEDB88320U : 0U);
  return static_cast<long long>(power << 1);
}

/// Bytes from which on folding is worth it: less than one of 4 registers is not.
constexpr std::size_t kFoldFrom = 128;

/// Moves a register's bits over `over`, the bits that a product of `by` stands for, and adds what
/// lies there.
[[gnu::target("pclmul,sse4.1")]] inline __m128i fold(__m128i bits, __m128i by, __m128i there) {
  const __m128i low = _mm_clmulepi64_si128(bits, by, 0x00);
  const __m128i high = _mm_clmulepi64_si128(bits, by, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), there);
}

inline __m128i load_16(const unsigned char* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}

/// Folds all whole 64 bytes into `left`, 16 bytes with the same sum from 0 on ("Fast CRC
/// computation using PCLMULQDQ", Intel, 2009). Returns what follows.
[[gnu::target("pclmul,sse4.1")]] const unsigned char* fold_all(const unsigned char* at,
                                                               std::size_t& bytes,
                                                               std::uint32_t sum,
                                                               unsigned char* left) {
  const __m128i by_four = _mm_set_epi64x(carried(4 * 128 - 32), carried(4 * 128 + 32));
  const __m128i by_one = _mm_set_epi64x(carried(128 - 32), carried(128 + 32));
  __m128i a = _mm_xor_si128(load_16(at), _mm_cvtsi32_si128(static_cast<int>(sum)));
  __m128i b = load_16(at + 16), c = load_16(at + 32), d = load_16(at + 48);
  for (at += 64, bytes -= 64; bytes >= 64; at += 64, bytes -= 64) {
    a = fold(a, by_four, load_16(at));
    b = fold(b, by_four, load_16(at + 16));
    c = fold(c, by_four, load_16(at + 32));
    d = fold(d, by_four, load_16(at + 48));
  }
  const __m128i all = fold(fold(fold(a, by_one, b), by_one, c), by_one, d);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(left), all);
  return at;
}
#endif

std::uint32_t sum_of(const unsigned char* at, std::size_t bytes, std::uint32_t sum) {
  for (; bytes >= 8; bytes -= 8, at += 8) {  // eight at once ("slicing by 8")
    std::uint64_t word = 0;
    std::memcpy(&word, at, 8);  // processors are little-endian here, as files are
    word ^= sum;
    sum = 0;
    for (std::size_t k = 0; k < 8; ++k) sum ^= kTables[7 - k][word >> 8 * k & 255];
  }
  for (; bytes > 0; --bytes, ++at) sum = sum >> 8 ^ kTables[0][(sum ^ *at) & 255];
  return sum;
}

}  // namespace

std::uint32_t crc32(const void* data, std::size_t bytes, std::uint32_t before) {
  const auto* at = static_cast<const unsigned char*>(data);
  std::uint32_t sum = ~before;
#if defined(__x86_64__)
  static const bool folds = __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
  if (folds && bytes >= kFoldFrom) {
    unsigned char left[16];
    at = fold_all(at, bytes, sum, left);
    sum = sum_of(left, sizeof left, 0);
  }
#endif
  return ~sum_of(at, bytes, sum);
}

}  // namespace hugectr
