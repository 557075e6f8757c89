// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/table_size.hpp"

#include <algorithm>

#include "core/cpp/ops/loops/hash_probe.hpp"

namespace hugectr {

TableSize size_of_table(const TableSpec& spec, std::size_t max_rows, std::size_t rows,
                        std::size_t keys, const std::shared_ptr<MemoryResource>& memory) {
  const std::size_t most = max_rows > 0 ? max_rows : kNoRow - 1;
  HCTR_CHECK(rows <= most, "embedding '", spec.name, "' is to have ", rows,
             " rows on a device and may have ", most);
  HashTable index(memory, spec.name, spec.key_type, most, spec.has_slots());
  index.make_places(rows, keys);
  const auto store =
      make_mapped_rows(*memory, spec.name, parts_of_row(spec.vec_size, spec.opt_params), most);
  store->grow_to(rows);
  return {index.size_in_bytes(), store->vector_bytes(),
          store->size_in_bytes() - store->vector_bytes()};
}

}  // namespace hugectr
