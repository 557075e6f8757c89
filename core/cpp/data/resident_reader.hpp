// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <functional>
#include <memory>

#include "core/cpp/data/data_reader.hpp"

namespace hugectr {

/// A reader whose batches stay on the devices: the first `batches` of the reader that `make_reader`
/// makes are read once, kept in device memory, and served again and again in their order. For data
/// that fits, and for measuring what a step takes without reading. The inner reader must repeat its
/// data; it goes, with its threads and staging memory, once the batches are there.
/// set_source() with a name reads anew, with "" only starts over. `batches` is at least 1.
HCTR_API std::unique_ptr<IDataReader> make_resident_reader(
    std::function<std::unique_ptr<IDataReader>()> make_reader, std::size_t batches,
    std::shared_ptr<ResourceManager> resources);

}  // namespace hugectr
