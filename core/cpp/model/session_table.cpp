// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/model/session_table.hpp"

#include "core/cpp/model/session_state.hpp"

namespace hugectr {

SessionTable::SessionTable(SessionState& session, std::size_t index)
    : TableAccess((*session.tables)[index]), session_(session) {}

void SessionTable::settle() { session_.settle(); }
std::int64_t SessionTable::step() const { return session_.step; }

TableViews SessionTable::view(std::size_t local_id) {
  session_.resources->get_local_gpu(local_id);  // checks the number
  session_.wait_for_plan();                     // a plan under way may be growing the table
  const TableRows rows = table().rows(local_id);
  const auto view = [&](const TensorRef& ref) { return session_.view(local_id, ref); };
  TableViews views{view(rows.keys), view(rows.slots), view(rows.vectors), {}};
  for (const TensorRef& state : rows.states) views.states.push_back(view(state));
  return views;
}

TableStats SessionTable::stats() const {
  session_.wait_for_plan();
  return table().stats();
}

}  // namespace hugectr
