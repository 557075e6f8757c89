// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/model/session.hpp"
#include "core/cpp/model/session_state.hpp"

/// Rows of tables in and out, whole or in parts.
namespace hugectr {

BufferBag Session::dump_embedding(std::size_t index, bool with_states) {
  impl_->settle();
  return (*impl_->tables)[index].dump(with_states);
}

void Session::load_embedding(std::size_t index, const RowView& rows) {
  impl_->settle();
  (*impl_->tables)[index].load(rows);
}

RowOrder Session::embedding_order(std::size_t index, RowMark since) {
  impl_->settle();
  return (*impl_->tables)[index].order(since);
}

void Session::read_embedding(std::size_t index, const RowOrder& order, std::size_t begin,
                             std::size_t end, const RowValues& values) {
  (*impl_->tables)[index].read(order, begin, end, values);
}

RowMark Session::mark_embedding(std::size_t index) {
  impl_->settle();
  return (*impl_->tables)[index].mark();
}

bool Session::embedding_knows_since(std::size_t index, RowMark since) const {
  return (*impl_->tables)[index].knows_since(since);
}

std::vector<std::size_t> Session::embedding_state_widths(std::size_t index) const {
  return (*impl_->tables)[index].state_widths();
}

bool Session::embedding_has_last_step(std::size_t index) const {
  return (*impl_->tables)[index].has_last_step();
}

std::size_t Session::embedding_vec_size(std::size_t index) const {
  return (*impl_->tables)[index].params().embedding_vec_size;
}

bool Session::embedding_has_slots(std::size_t index) const {
  return (*impl_->tables)[index].has_slots();
}

std::string Session::embedding_placement(std::size_t index) const {
  return (*impl_->tables)[index].placement().name();
}

std::vector<std::uint32_t> Session::row_processes(
    std::size_t index, const std::vector<std::int64_t>& keys,
    const std::vector<std::uint64_t>& slot_ids) const {
  return (*impl_->tables)[index].row_processes(keys, slot_ids);
}

}  // namespace hugectr
