// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/nearest.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/cpp/device/staging_pieces.hpp"
#include "core/cpp/ops/loops/hash_probe.hpp"
#include "core/cpp/ops/loops/rounded_rows.hpp"

namespace hugectr {
namespace {

constexpr std::size_t kNearestGrain = std::size_t{1} << 13;  // rows a thread compares at once

using Quad = double __attribute__((vector_size(32)));

Quad load_quad(const float* p) {
  using Floats = float __attribute__((vector_size(16)));
  Floats narrow;
  std::memcpy(&narrow, p, sizeof narrow);
  return __builtin_convertvector(narrow, Quad);
}

/// Sum of term(a[i], b[i]); the order of the additions is that of (n) alone.
template <class Term>
double sum_over(const float* a, const float* b, std::size_t n, const Term& term) {
  Quad sums{};
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4) sums += term(load_quad(a + i), load_quad(b + i));
  double sum = (sums[0] + sums[2]) + (sums[1] + sums[3]);
  for (; i < n; ++i) sum += term(static_cast<double>(a[i]), static_cast<double>(b[i]));
  return sum;
}

double dot(const float* a, const float* b, std::size_t n) {
  return sum_over(a, b, n, [](auto x, auto y) { return x * y; });
}

double score_of(Similarity similarity, const float* query, double length, const float* row,
                std::size_t n) {
  if (similarity == Similarity::Dot) return dot(query, row, n);
  if (similarity == Similarity::L2) {
    return std::sqrt(sum_over(query, row, n, [](auto x, auto y) { return (x - y) * (x - y); }));
  }
  const double lengths = length * std::sqrt(dot(row, row, n));
  return lengths == 0.0 ? 0.0 : dot(query, row, n) / lengths;
}

/// A row, and how near it is: less is nearer.
struct Candidate {
  double distance = 0.0;
  std::uint32_t slot = 0;
  std::int64_t key = 0;

  bool operator<(const Candidate& other) const {
    if (distance != other.distance) return distance < other.distance;
    return slot != other.slot ? slot < other.slot : key < other.key;
  }
};

/// The k least of what it is given.
class Least {
 public:
  explicit Least(std::size_t k) : k_(k) {}
  void add(const Candidate& candidate) {
    if (heap_.size() == k_ && !(candidate < heap_.front())) return;
    if (heap_.size() == k_) {
      std::pop_heap(heap_.begin(), heap_.end());
      heap_.pop_back();
    }
    heap_.push_back(candidate);
    std::push_heap(heap_.begin(), heap_.end());
  }
  void add(const Least& others) {
    for (const Candidate& other : others.heap_) add(other);
  }
  std::vector<Candidate> sorted() && {
    std::sort_heap(heap_.begin(), heap_.end());
    return std::move(heap_);
  }

 private:
  std::size_t k_;
  std::vector<Candidate> heap_;  ///< the worst one first
};

/// f(vectors of rows [begin, end) on the host as the table keeps them, begin, end), one piece after
/// the other.
template <class F>
void for_each_piece(const Table& table, const TensorRef& vectors, const F& f) {
  const std::size_t rows = vectors.shape[0], bytes = vectors.row_size() * size_of(vectors.dtype);
  Stream& stream = table.gpu().compute_stream();
  const char* const data = static_cast<const char*>(vectors.data);
  if (table.store().visited_on_host()) {
    stream.synchronize();
    f(data, std::size_t{0}, rows);
    return;
  }
  StagingPieces& pieces = table.gpu().staging_pieces();
  const std::size_t step = StagingPieces::kBytes / bytes;
  const auto take = [&](std::size_t piece, std::size_t begin, std::size_t end) {
    pieces.copied(piece).synchronize();
    f(static_cast<const char*>(pieces.data(piece)), begin, end);
  };
  std::size_t piece = 0;
  for (std::size_t begin = 0; begin < rows; begin += step, ++piece) {
    const std::size_t end = std::min(begin + step, rows);
    stream.copy(pieces.data(piece), data + begin * bytes, (end - begin) * bytes);
    stream.record(pieces.copied(piece));
    if (piece > 0) take(piece - 1, begin - step, begin);
  }
  if (piece > 0) take(piece - 1, (piece - 1) * step, rows);
}

template <class Key>
void add_part(const Table& table, ThreadPool& pool, std::span<const float> query,
              Similarity similarity, const std::optional<RowName>& but, std::size_t k,
              Least& least) {
  const RowExtent extent = table.visible();
  const std::size_t n = extent.rows, d = query.size();
  if (n == 0) return;
  std::vector<Key> keys;
  std::vector<std::uint32_t> slots, births(table.has_gaps() ? n : 0);
  table.index().dump(table.gpu().plan_context(), n, keys, slots);
  if (!births.empty()) {
    Stream& stream = table.gpu().compute_stream();
    stream.copy(births.data(), table.births(n).data, n * sizeof(std::uint32_t));
    stream.synchronize();
  }
  const double length = std::sqrt(dot(query.data(), query.data(), d));
  const auto candidate = [&](std::size_t row, const float* vector) {
    const double score = score_of(similarity, query.data(), length, vector, d);
    const double distance = similarity == Similarity::L2 ? score : -score;
    return Candidate{std::isnan(distance) ? std::numeric_limits<double>::infinity() : distance,
                     slots.empty() ? 0 : slots[row], static_cast<std::int64_t>(keys[row])};
  };
  const bool widened = table.spec().vector_type == TensorScalarType::BFloat16;
  const auto take = [&](const char* vectors, std::size_t first, std::size_t last) {
    const std::size_t count = last - first;
    std::vector<Least> found((count + kNearestGrain - 1) / kNearestGrain, Least(k));
    parallel_for(pool, count, kNearestGrain, [&](std::size_t begin, std::size_t end) {
      Least& own = found[begin / kNearestGrain];
      std::vector<float> wide(widened ? d : 0);
      const auto vector = [&](std::size_t i) {
        if (!widened) return reinterpret_cast<const float*>(vectors) + i * d;
        widen_row(reinterpret_cast<const BFloat16*>(vectors) + i * d, d, wide.data());
        return static_cast<const float*>(wide.data());
      };
      for (std::size_t i = begin; i < end; ++i) {
        const std::size_t row = first + i;
        const bool visible =
            births.empty() || (keys[row] != kEmptyKey<Key> && births[row] <= extent.birth);
        if (!visible) continue;
        const Candidate one = candidate(row, vector(i));
        if (!but || one.key != but->key || one.slot != but->slot) own.add(one);
      }
    });
    for (const Least& own : found) least.add(own);
  };
  table.store().scan(table.gpu().compute_context(), n, RowUse::Read,
                     [&](const RowArrays& arrays, std::size_t first, std::size_t) {
                       for_each_piece(table, arrays.vectors,
                                      [&](const char* vectors, std::size_t begin, std::size_t end) {
                                        take(vectors, first + begin, first + end);
                                      });
                     });
}

}  // namespace

Similarity similarity_named(const std::string& name) {
  if (name == "cosine") return Similarity::Cosine;
  if (name == "dot") return Similarity::Dot;
  if (name == "l2") return Similarity::L2;
  throw InvalidArgument(concat("metric: found '", name, "', allowed: 'cosine', 'dot', 'l2'"));
}

Neighbours nearest_rows(const TableParts& parts, ThreadPool& pool, std::span<const float> query,
                        std::size_t k, Similarity similarity, const std::optional<RowName>& but) {
  const TableSpec& spec = parts.front()->spec();
  HCTR_CHECK(query.size() == spec.vec_size, "embedding '", spec.name, "' has vectors of ",
             spec.vec_size, ", the one to compare with has ", query.size());
  HCTR_CHECK(k >= 1, "nearest: k must be at least 1");
  Least least(k);
  for (const auto& table : parts) {
    with_key_type(spec.key_type, [&]<class Key>(Key) {
      add_part<Key>(*table, pool, query, similarity, but, k, least);
    });
  }
  Neighbours neighbours;
  for (const Candidate& one : std::move(least).sorted()) {
    neighbours.keys.push_back(one.key);
    if (spec.has_slots()) neighbours.slot_ids.push_back(one.slot);
    const bool turned = similarity != Similarity::L2 && one.distance != 0.0;
    neighbours.scores.push_back(turned ? -one.distance : one.distance);
  }
  return neighbours;
}

}  // namespace hugectr
