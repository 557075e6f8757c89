// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>

#include "core/cpp/base/export.hpp"
#include "core/cpp/memory/memory_resource.hpp"

namespace hugectr {

/// Bytes of a page in which a device's growable memory grows.
HCTR_API std::size_t growth_page(DeviceType type);

/// A resource that gives no memory and refuses nothing: what is built on it has its size and null
/// pointers. For asking code that allocates how much it would take. `device`: the one it stands
/// for.
HCTR_API std::shared_ptr<MemoryResource> make_counting_resource(DeviceId device);

}  // namespace hugectr
