// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/embedding/table/row_tiers.hpp"

#include "core/cpp/embedding/table/cache_memory.hpp"
#include "core/cpp/embedding/table/cached_rows.hpp"
#include "core/cpp/embedding/table/disk_backing.hpp"

namespace hugectr {

std::size_t places_of_budget(const TableMemory& memory, const RowParts& parts) {
  return memory.device.value_or(0) / (parts.row_bytes() + kBytesBesidePlace);
}

std::size_t host_places_of_budget(const TableMemory& memory, const RowParts& parts) {
  if (!memory.disk) return 0;
  return memory.host.value_or(0) / (parts.row_bytes() + kBytesBesideHostPlace);
}

namespace {

std::unique_ptr<RowBacking> make_home(GPUResource& gpu, const std::string& table,
                                      const std::string& owner, const TableMemory& memory,
                                      const RowParts& parts, std::size_t places,
                                      std::size_t max_rows) {
  const std::size_t on_host = host_places_of_budget(memory, parts);
  if (!memory.disk || on_host >= max_rows) {
    return make_host_rows(*gpu.staging_resource(), gpu.device(), owner, parts, max_rows);
  }
  // Rows that leave the device and rows that come to it have places there at the same time.
  HCTR_CHECK(on_host >= 2 * places, "embedding '", table, "': Memory(host=) has places for ",
             on_host, " rows of a device and must have twice those of Memory(device=), ", places,
             ": at least ", 2 * places * (parts.row_bytes() + kBytesBesideHostPlace),
             " bytes for each device of the process");
  return make_disk_rows(gpu, table, owner, *memory.disk, parts, on_host, max_rows);
}

}  // namespace

std::unique_ptr<RowStore> make_row_store(GPUResource& gpu, const std::string& table,
                                         const std::string& owner, const TableMemory& memory,
                                         const OptParams& params, const RowParts& parts,
                                         std::size_t max_rows) {
  if (!memory.tiered()) {
    return make_mapped_rows(*gpu.memory_resource(), gpu.device(), owner, parts, max_rows);
  }
  if (sweeps_untouched_rows(params)) {
    OptParams lazy = params;
    lazy.update_type = Update::LazyGlobal;
    throw InvalidArgument(concat(
        "embedding '", table,
        "' has memory= tiers, and the update type of its optimizer moves "
        "every row in every step, which would bring the whole table to the device each time: use "
        "Update_t.",
        sweeps_untouched_rows(lazy) ? "" : "LazyGlobal or Update_t.",
        "Local, or leave memory out"));
  }
  HCTR_CHECK(!memory.disk || *memory.device > 0, "embedding '", table,
             "': over Memory(disk=) a device needs places for the rows of two batches; give it "
             "Memory(device=) of more than 0");
  if (*memory.device == 0) {
    return make_mapped_rows(*gpu.staging_resource(), gpu.device(), owner + " on the host", parts,
                            max_rows);
  }
  const std::size_t places = places_of_budget(memory, parts);
  HCTR_CHECK(places > 0, "embedding '", table, "': Memory(device=) of ", *memory.device,
             " bytes holds no row, which takes ", parts.row_bytes() + kBytesBesidePlace);
  if (places >= max_rows) {
    return make_mapped_rows(*gpu.memory_resource(), gpu.device(), owner, parts, max_rows);
  }
  return make_cached_rows(gpu, make_home(gpu, table, owner, memory, parts, places, max_rows), table,
                          owner, parts, places, max_rows);
}

}  // namespace hugectr
