// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/life/row_choice.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>

#include "core/cpp/embedding/table/row_erase.hpp"
#include "core/cpp/ops/row_ranks.hpp"
#include "core/cpp/ops/row_times.hpp"

namespace hugectr {
namespace {

/// A row's rank: RankWord -> number.
using Rank = std::array<std::uint64_t, kRankWords>;
constexpr std::uint64_t kHighest = std::numeric_limits<std::uint64_t>::max();

/// The fields that both ops have, for the rows of a part.
template <class Op>
Op ranked_op(const Table& part, RowRank rank, std::int64_t step, const Rank& bound) {
  const std::size_t rows = part.state().rows;
  const UseRule rule = part.spec().life.use_rule();
  Op op;
  op.scores = part.scores(rows);
  op.row_keys = part.index().row_keys(rows);
  op.row_slots = part.index().row_slots(rows);
  op.rank = static_cast<std::int64_t>(rank);
  op.step = step;
  op.period = static_cast<std::int64_t>(rule.period);
  op.kept = static_cast<std::int64_t>(rule.kept);
  std::copy(bound.begin(), bound.end(), op.bound.begin());
  return op;
}

std::shared_ptr<DeviceBuffer2> memory_of(const Table& part, std::size_t count,
                                         TensorScalarType type, TensorBag2& tensor) {
  auto memory = DeviceBuffer2::create(part.owner() + " rows that may go",
                                      DeviceAllocator(part.gpu().memory_resource()));
  tensor = memory->reserve({count}, type, "rows");
  memory->allocate();
  return memory;
}

enum class Which { All, Candidates, Ties };

/// All rows whose rank is not above the bound; Ties: of those with its uses and step. `most`: as
/// many as there can be in the whole job; 0: not known, they are counted first, and none of an
/// unknown time is taken.
ChosenRows take(const TableParts& parts, RowRank rank, std::int64_t step, const Rank& bound,
                Which which, std::size_t most) {
  ChosenRows chosen;
  for (const auto& part : parts) {
    chosen.rows.emplace_back();
    const std::size_t live = part->visible().live;
    if (live == 0) continue;
    const OpContext context = part->gpu().plan_context();
    TensorBag2 count, rows;
    const auto counter = memory_of(*part, 1, TensorScalarType::Int64, count);
    auto op = ranked_op<TakeRanked>(*part, rank, step, bound);
    op.candidates = which == Which::Candidates;
    op.ties = which == Which::Ties;
    op.dated = which != Which::Ties && most == 0 && part->spec().life.timed();
    op.count = count.ref();
    const auto found = [&] {
      std::int64_t n = 0;
      run(context, op);
      context.stream->copy(&n, count.get_ptr(), sizeof n);
      context.stream->synchronize();
      return static_cast<std::size_t>(n);
    };
    const std::size_t room = most > 0 ? std::min(live, most) : found();
    if (room == 0) continue;
    auto memory = memory_of(*part, room, TensorScalarType::UInt32, rows);
    op.rows = rows.ref();
    const std::size_t n = found();
    if (n == 0) continue;
    chosen.memory.push_back(std::move(memory));
    chosen.rows.back() = rows.ref();
    chosen.rows.back().shape = {n};
    chosen.count += n;
  }
  return chosen;
}

/// Sums of numbers over the processes of the job.
void sum_over(IProcessGroup* processes, std::vector<std::int64_t>& numbers) {
  if (processes == nullptr) return;
  std::vector<std::int64_t> all(numbers.size() * processes->size());
  processes->all_gather(numbers.data(), numbers.size() * sizeof(std::int64_t), all.data());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = 0;
    for (std::size_t p = 0; p < processes->size(); ++p) numbers[i] += all[p * numbers.size() + i];
  }
}

/// So many rows with the same uses and step are looked at on the host.
constexpr std::int64_t kFewTies = 1 << 20;

/// Finds the rank of the last of the first `wanted` rows, digit by digit from the highest on; of
/// those that only identity tells apart on the host, unless they are many.
class RankSearch {
 public:
  RankSearch(const TableSpec& spec, const TableParts& parts, RowRank rank, std::int64_t step,
             IProcessGroup* processes)
      : spec_(spec), parts_(parts), rank_(rank), step_(step), processes_(processes) {
    for (const auto& part : parts) {
      memory_.push_back(
          memory_of(*part, kRankDigits, TensorScalarType::Int64, counts_.emplace_back()));
    }
  }

  /// Of `alike` rows in the whole job.
  Rank find(std::int64_t wanted, std::int64_t alike) {
    bound_ = {};
    for (int word = 0; word < kRankWords; ++word) {
      if (word == kRankSlot && alike <= kFewTies) return among_ties(wanted, alike);
      const int from = first_shift(word, kRankBits[word]);
      for (int shift = first_shift(word, likely_bits(word)); shift >= 0; shift -= kRankDigitBits) {
        std::vector<std::int64_t> counts = count(word, shift);
        if (shift < from &&
            std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) < alike) {
          shift = from;  // scores that came with rows from elsewhere may be higher
          counts = count(word, shift);
        }
        std::size_t digit = 0;
        while (digit + 1 < kRankDigits && counts[digit] < wanted) wanted -= counts[digit++];
        bound_[static_cast<std::size_t>(word)] |= std::uint64_t{digit} << shift;
        if (counts[digit] == wanted) return with_all_below(word, shift);
        alike = counts[digit];
      }
    }
    return bound_;
  }

 private:
  /// Of the highest digit of so many bits that is not the same for all rows; negative: there is
  /// none.
  int first_shift(int word, int bits) const {
    const bool same =
        (word == kRankUses && rank_ == RowRank::Age) || (word == kRankSlot && !spec_.has_slots());
    if (same) return -1;
    if (word == kRankUses && rank_ == RowRank::Lru) bits = 1;
    return (bits - 1) / kRankDigitBits * kRankDigitBits;
  }

  /// Of a word in rows of this training: it has made `step_` steps, and none uses a row twice.
  int likely_bits(int word) const {
    const auto steps = static_cast<std::uint64_t>(step_);
    if (word == kRankUses)
      return std::min<int>(std::bit_width(steps * kOneUse + 1), kRankBits[word]);
    if (word == kRankStep) return std::clamp<int>(std::bit_width(steps), 1, kRankBits[word]);
    return kRankBits[word];
  }

  Rank with_all_below(int word, int shift) const {
    Rank bound = bound_;
    bound[static_cast<std::size_t>(word)] |= (std::uint64_t{1} << shift) - 1;
    std::fill(bound.begin() + word + 1, bound.end(), kHighest);
    return bound;
  }

  /// The bound among the rows with its uses and step.
  Rank among_ties(std::int64_t wanted, std::int64_t alike) const {
    Rank all = bound_;
    all[kRankSlot] = all[kRankKey] = kHighest;
    const ChosenRows ties =
        take(parts_, rank_, step_, all, Which::Ties, static_cast<std::size_t>(alike));
    std::vector<Name> own;
    for (std::size_t id = 0; id < parts_.size(); ++id) {
      if (ties.rows[id].empty()) continue;
      const RowIdentities names = identities_of(*parts_[id], ties.rows[id]);
      for (std::size_t i = 0; i < names.keys.size(); ++i) {
        own.push_back({names.slots.empty() ? 0 : names.slots[i], widen_key(names.keys[i])});
      }
    }
    if (processes_ != nullptr) {
      const auto* const bytes = reinterpret_cast<const char*>(own.data());
      const auto gathered = processes_->all_gather_any({bytes, bytes + own.size() * sizeof(Name)});
      own.clear();
      for (const std::vector<char>& part : gathered) {
        const std::size_t before = own.size();
        own.resize(before + part.size() / sizeof(Name));
        std::memcpy(own.data() + before, part.data(), part.size());
      }
    }
    const auto last = own.begin() + (wanted - 1);
    std::nth_element(own.begin(), last, own.end());
    Rank bound = bound_;
    bound[kRankSlot] = (*last)[0];
    bound[kRankKey] = (*last)[1];
    return bound;
  }

  std::vector<std::int64_t> count(int word, int shift) {
    std::vector<std::vector<std::int64_t>> of_parts(parts_.size());
    for (std::size_t id = 0; id < parts_.size(); ++id) {
      if (parts_[id]->state().rows == 0) continue;
      const OpContext context = parts_[id]->gpu().plan_context();
      auto op = ranked_op<CountRanks>(*parts_[id], rank_, step_, bound_);
      op.counts = counts_[id].ref();
      op.word = word;
      op.shift = shift;
      run(context, op);
      of_parts[id].resize(kRankDigits);
      context.stream->copy(of_parts[id].data(), counts_[id].get_ptr(),
                           counts_[id].get_size_in_bytes());
    }
    std::vector<std::int64_t> sums(kRankDigits, 0);
    for (std::size_t id = 0; id < parts_.size(); ++id) {
      if (of_parts[id].empty()) continue;
      parts_[id]->gpu().plan_stream().synchronize();
      for (std::size_t i = 0; i < kRankDigits; ++i) sums[i] += of_parts[id][i];
    }
    sum_over(processes_, sums);
    return sums;
  }

  using Name = std::array<std::uint64_t, 2>;  ///< slot, key

  const TableSpec& spec_;
  const TableParts& parts_;
  const RowRank rank_;
  const std::int64_t step_;
  IProcessGroup* const processes_;
  std::vector<std::shared_ptr<DeviceBuffer2>> memory_;
  std::vector<TensorBag2> counts_;
  Rank bound_{};
};

/// So many scores are looked at on the host at a time.
constexpr std::size_t kScoresAtOnce = std::size_t{1} << 20;

/// Rows of the job whose time is none. Collective.
std::int64_t rows_without_a_sound_time(const TableParts& parts, IProcessGroup* processes) {
  std::vector<std::int64_t> found{0};
  std::vector<std::uint64_t> scores;
  for (const auto& part : parts) {
    const std::size_t rows = part->state().rows;
    Stream& stream = part->gpu().plan_stream();
    for (std::size_t begin = 0; begin < rows; begin += scores.size()) {
      scores.resize(std::min(kScoresAtOnce, rows - begin));
      stream.copy(scores.data(), part->scores(rows).ptr<std::uint64_t>() + begin,
                  scores.size() * sizeof(std::uint64_t));
      stream.synchronize();
      found[0] += std::ranges::count(scores, kLastScoredStep, score_step);
    }
  }
  sum_over(processes, found);
  return found[0];
}

/// Ranks of rows that were last used in this step or before.
Rank used_up_to(std::uint64_t step) { return {0, step, kHighest, kHighest}; }

}  // namespace

std::int64_t latest_time(const TableSpec& spec, const TableParts& parts, IProcessGroup* processes) {
  std::int64_t latest = 0;
  for (const auto& part : parts) {
    const std::size_t rows = part->state().rows;
    if (rows == 0) continue;
    const OpContext context = part->gpu().plan_context();
    TensorBag2 found;
    const auto memory = memory_of(*part, 1, TensorScalarType::Int64, found);
    run(context, LatestUse{.scores = part->scores(rows), .latest = found.ref()});
    std::int64_t own = 0;
    context.stream->copy(&own, found.get_ptr(), sizeof own);
    context.stream->synchronize();
    latest = std::max(latest, own);
  }
  if (processes != nullptr) {
    std::vector<std::int64_t> all(processes->size());
    processes->all_gather(&latest, sizeof latest, all.data());
    latest = *std::ranges::max_element(all);
  }
  if (latest < static_cast<std::int64_t>(kLastScoredStep)) return latest;
  throw InvalidArgument(
      concat("embedding '", spec.name, "': ttl_column '", spec.life.ttl_column,
             "' has times that are negative or beyond 2106-02-07, which ",
             rows_without_a_sound_time(parts, processes),
             " rows have: they must be whole seconds since 1970, not milliseconds. Mend the data, "
             "and remove these rows: model.evict('",
             spec.name, "', where=lambda use: use.last_step >= 2**32 - 1)"));
}

ChosenRows stale_candidates(const TableSpec& spec, const TableParts& parts, std::int64_t now) {
  const RowLife& life = spec.life;
  const auto unused = static_cast<std::int64_t>(life.timed() ? life.ttl : life.evict_every);
  if (life.admit_after < 2 || now < unused) return {};
  const auto last = static_cast<std::uint64_t>(now - unused);
  return take(parts, RowRank::Age, now, used_up_to(last), Which::Candidates, 0);
}

ChosenRows expired_rows(const TableSpec& spec, const TableParts& parts, std::int64_t now) {
  const RowLife& life = spec.life;
  if (life.evict != Eviction::Ttl || now < static_cast<std::int64_t>(life.ttl)) return {};
  const auto last = static_cast<std::uint64_t>(now) - life.ttl;
  return take(parts, RowRank::Age, now, used_up_to(last), Which::All, 0);
}

ChosenRows surplus_rows(const TableSpec& spec, const TableParts& parts, std::int64_t now,
                        IProcessGroup* processes) {
  const RowLife& life = spec.life;
  if (life.evict == Eviction::None || life.max_rows == 0) return {};
  std::vector<std::int64_t> live{0};
  for (const auto& part : parts) live[0] += static_cast<std::int64_t>(part->visible().live);
  sum_over(processes, live);
  if (live[0] <= static_cast<std::int64_t>(life.max_rows)) return {};
  // Where every row is admitted by its first use, nobody goes before those of age.
  const RowRank by_age = life.admit_after > 1 ? RowRank::Lru : RowRank::Age;
  const RowRank rank = life.evict == Eviction::Lfu ? RowRank::Lfu : by_age;
  const std::int64_t surplus = live[0] - static_cast<std::int64_t>(life.rows_left());
  const Rank bound = RankSearch(spec, parts, rank, now, processes).find(surplus, live[0]);
  return take(parts, rank, now, bound, Which::All, static_cast<std::size_t>(surplus));
}

}  // namespace hugectr
