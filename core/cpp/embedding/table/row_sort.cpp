// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/row_sort.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <utility>
#include <vector>

namespace hugectr {
namespace {

constexpr std::size_t kMinGrain = std::size_t{1} << 15;  // rows of a piece
constexpr std::size_t kMaxPieces = 64;  // each has counters of its own: more would cost memory
/// 256 places are written at a time: as many pages as fit the fast part of the address cache.
constexpr unsigned kDigitBits = 8;
constexpr std::size_t kDigits = std::size_t{1} << kDigitBits;
constexpr std::uint64_t kSignBit = std::uint64_t{1} << 63;

using Counts = std::array<std::size_t, kDigits>;

/// The key's bits in an order that unsigned comparison has too.
std::uint64_t key_bits(const RowPlace& place) {
  return static_cast<std::uint64_t>(place.key) ^ kSignBit;
}

std::uint64_t slot_bits(const RowPlace& place) { return place.slot(); }

bool in_order(const RowPlace& a, const RowPlace& b) {
  return a.slot() != b.slot() ? a.slot() < b.slot() : a.key <= b.key;
}

/// What sorting has to look at: bits in which any two rows differ.
struct Differing {
  std::uint64_t key = 0, slot = 0;
  bool sorted = true;
};

Differing differing(ThreadPool& pool, const RowPlace* places, std::size_t n, std::size_t grain) {
  std::atomic<std::uint64_t> key{0}, slot{0};
  std::atomic<bool> sorted{true};
  parallel_for(pool, n, grain, [&](std::size_t begin, std::size_t end) {
    std::uint64_t keys = 0, slots = 0;
    bool ordered = true;
    for (std::size_t i = begin; i < end; ++i) {
      keys |= key_bits(places[i]) ^ key_bits(places[0]);
      slots |= slot_bits(places[i]) ^ slot_bits(places[0]);
      ordered = ordered && (i == 0 || in_order(places[i - 1], places[i]));
    }
    key |= keys;
    slot |= slots;
    if (!ordered) sorted = false;
  });
  return {key, slot, sorted};
}

/// One digit, least significant first. Pieces keep their order inside a digit, so the result does
/// not depend on the number of threads.
template <class Bits>
void sort_digit(ThreadPool& pool, std::size_t n, std::size_t grain, unsigned shift,
                std::vector<Counts>& counts, const RowPlace* from, RowPlace* to, const Bits& bits) {
  counts.assign((n + grain - 1) / grain, Counts{});
  parallel_for(pool, n, grain, [&](std::size_t begin, std::size_t end) {
    Counts& own = counts[begin / grain];
    for (std::size_t i = begin; i < end; ++i) ++own[bits(from[i]) >> shift & (kDigits - 1)];
  });
  std::size_t sum = 0;
  for (std::size_t digit = 0; digit < kDigits; ++digit) {
    for (Counts& piece : counts) sum += std::exchange(piece[digit], sum);
  }
  parallel_for(pool, n, grain, [&](std::size_t begin, std::size_t end) {
    Counts& at = counts[begin / grain];
    for (std::size_t i = begin; i < end; ++i) {
      to[at[bits(from[i]) >> shift & (kDigits - 1)]++] = from[i];
    }
  });
}

}  // namespace

RowPlace* sort_rows(ThreadPool& pool, RowPlace* places, RowPlace* scratch, std::size_t n) {
  const std::size_t grain = std::max(kMinGrain, (n + kMaxPieces - 1) / kMaxPieces);
  const Differing found = differing(pool, places, n, grain);
  if (found.sorted) return places;
  std::vector<Counts> counts;
  const auto sort = [&](std::uint64_t mask, const auto& bits) {
    while (mask != 0) {
      const auto shift = static_cast<unsigned>(std::countr_zero(mask));
      sort_digit(pool, n, grain, shift, counts, places, scratch, bits);
      std::swap(places, scratch);
      mask &= ~(std::uint64_t{kDigits - 1} << shift);
    }
  };
  sort(found.key, key_bits);
  sort(found.slot, slot_bits);
  return places;
}

}  // namespace hugectr
