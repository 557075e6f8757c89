// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/model/session_table.hpp"

#include "core/cpp/model/session_state.hpp"

namespace hugectr {

SessionTable::SessionTable(SessionState& session, std::size_t index)
    : session_(session), table_((*session.tables)[index]) {}

const std::string& SessionTable::name() const { return table_.params().name; }
std::size_t SessionTable::vec_size() const { return table_.params().embedding_vec_size; }
std::string SessionTable::placement() const { return table_.placement().name(); }
bool SessionTable::has_slots() const { return table_.has_slots(); }
std::vector<std::size_t> SessionTable::state_widths() const { return table_.state_widths(); }
bool SessionTable::has_last_step() const { return table_.has_last_step(); }

BufferBag SessionTable::dump(bool with_states) {
  session_.settle();
  return table_.dump(with_states);
}

RowOrder SessionTable::order(RowMark since) {
  session_.settle();
  return table_.order(since);
}

void SessionTable::read(const RowOrder& order, std::size_t begin, std::size_t end,
                        const RowValues& values) {
  table_.read(order, begin, end, values);
}

std::vector<std::uint8_t> SessionTable::lookup(const std::vector<std::int64_t>& keys,
                                               const std::vector<std::uint64_t>& slot_ids,
                                               float* vectors) {
  session_.settle();
  return table_.lookup(keys, slot_ids, vectors);
}

Neighbours SessionTable::nearest(const std::vector<float>& query, std::size_t k,
                                 Similarity similarity, const std::optional<RowName>& but) {
  session_.settle();
  return table_.nearest(query, k, similarity, but);
}

RowMark SessionTable::mark() {
  session_.settle();
  return table_.mark();
}

bool SessionTable::knows_since(RowMark since) const { return table_.knows_since(since); }

std::vector<std::uint32_t> SessionTable::row_processes(
    const std::vector<std::int64_t>& keys, const std::vector<std::uint64_t>& slot_ids) const {
  return table_.row_processes(keys, slot_ids);
}

void SessionTable::load(const RowView& rows) {
  session_.settle();
  table_.load(rows);
}

std::size_t SessionTable::erase(const std::vector<std::int64_t>& keys,
                                const std::vector<std::uint64_t>& slot_ids) {
  session_.settle();
  return table_.erase(keys, slot_ids);
}

void SessionTable::reset() {
  session_.settle();
  table_.reset();
}

TableViews SessionTable::view(std::size_t local_id) {
  session_.resources->get_local_gpu(local_id);  // checks the number
  session_.wait_for_plan();                     // a plan under way may be growing the table
  const TableRows rows = table_.rows(local_id);
  const auto view = [&](const TensorRef& ref) { return session_.view(local_id, ref); };
  TableViews views{view(rows.keys), view(rows.slots), view(rows.vectors), {}};
  for (const TensorRef& state : rows.states) views.states.push_back(view(state));
  return views;
}

TableStats SessionTable::stats() const {
  session_.wait_for_plan();
  return table_.stats();
}

}  // namespace hugectr
