// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/base/error.hpp"
#include "core/cpp/embedding/table/row_bag.hpp"

namespace hugectr {

namespace {

/// The array, or null when it is empty; throws when it has neither no values nor `expected`.
template <class T>
const T* data_of(const char* what, const std::vector<T>& values, std::size_t expected) {
  HCTR_CHECK(values.empty() || values.size() == expected, "rows to load: ", what, " has ",
             values.size(), " values, must have ", expected);
  return values.empty() ? nullptr : values.data();
}

}  // namespace

RowView::RowView(const BufferBag& rows)
    : size(rows.size()), vec_size(rows.vec_size), keys(rows.keys.data()) {
  HCTR_CHECK(rows.vectors.size() == size * vec_size, "rows to load: ", rows.vectors.size(),
             " values for ", size, " vectors of ", vec_size);
  slot_ids = data_of("slot_ids", rows.slot_ids, size);
  vectors = rows.vectors.data();
  for (const auto& state : rows.states) {
    HCTR_CHECK(state.size() == size * vec_size || state.size() == size,
               "rows to load: an optimizer state has ", state.size(), " values, must have ",
               size * vec_size, ", or ", size, " when it is one number a row");
    states.push_back(state.data());
    state_widths.push_back(state.size() == size * vec_size ? vec_size : 1);
  }
  last_step = data_of("last_step", rows.last_step, size);
  scores = data_of("scores", rows.scores, size);
}

}  // namespace hugectr
