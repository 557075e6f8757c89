// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table_access.hpp"

#include "core/cpp/embedding/sharded_table.hpp"

namespace hugectr {

TableAccess::~TableAccess() = default;

const std::string& TableAccess::name() const { return table_.params().name; }
std::size_t TableAccess::vec_size() const { return table_.params().embedding_vec_size; }
TensorScalarType TableAccess::vector_type() const { return table_.params().vector_type; }
std::string TableAccess::placement() const { return table_.placement().name(); }
bool TableAccess::has_slots() const { return table_.has_slots(); }
std::vector<std::size_t> TableAccess::state_widths() const { return table_.state_widths(); }
bool TableAccess::has_last_step() const { return table_.has_last_step(); }

BufferBag TableAccess::dump(bool with_states) {
  settle();
  return table_.dump(with_states);
}

RowOrder TableAccess::order(RowMark since) {
  settle();
  return table_.order(since);
}

void TableAccess::read(const RowOrder& order, std::size_t begin, std::size_t end,
                       const RowValues& values) {
  table_.read(order, begin, end, values);
}

StoredSplit TableAccess::stored(const RowOrder& order) { return table_.stored(order); }

void TableAccess::check_undamaged() { table_.check_undamaged(); }

std::vector<std::uint8_t> TableAccess::lookup(const std::vector<std::int64_t>& keys,
                                              const std::vector<std::uint64_t>& slot_ids,
                                              float* vectors) {
  settle();
  return table_.lookup(keys, slot_ids, vectors);
}

Neighbours TableAccess::nearest(const std::vector<float>& query, std::size_t k,
                                Similarity similarity, const std::optional<RowName>& but) {
  settle();
  return table_.nearest(query, k, similarity, but);
}

RowMark TableAccess::mark() {
  settle();
  return table_.mark();
}

bool TableAccess::knows_since(RowMark since) const { return table_.knows_since(since); }
bool TableAccess::knows_changes_since(RowMark since) const {
  return table_.knows_changes_since(since);
}
bool TableAccess::keeps_scores() const { return table_.keeps_scores(); }
bool TableAccess::keeps_times() const { return table_.params().life.timed(); }

RowNames TableAccess::gone(RowMark since) {
  settle();
  return table_.gone(since);
}

std::vector<std::uint32_t> TableAccess::row_processes(
    const std::vector<std::int64_t>& keys, const std::vector<std::uint64_t>& slot_ids) const {
  return table_.row_processes(keys, slot_ids);
}

void TableAccess::load(const RowView& rows) {
  settle();
  table_.load(rows, step());
}

std::size_t TableAccess::erase(const std::vector<std::int64_t>& keys,
                               const std::vector<std::uint64_t>& slot_ids) {
  settle();
  return table_.erase(keys, slot_ids);
}

void TableAccess::reset() {
  settle();
  table_.reset();
}

TableStats TableAccess::stats() const { return table_.stats(); }

}  // namespace hugectr
