// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>

#include "core/cpp/device/op.hpp"
#include "core/cpp/ops/filter_keys.hpp"

namespace hugectr {

/// Some slots of a batch, slot s being device s % devices': those of one device, or of all others.
/// Without devices all slots are meant.
struct SlotShare {
  std::int64_t devices = 0, device = 0;
  bool others = false;

  HCTR_HD bool all() const { return devices == 0; }
  /// How many of so many slots.
  HCTR_HD std::size_t count(std::size_t slots) const {
    if (all()) return slots;
    const std::size_t own =
        slots_of_device(slots, static_cast<std::size_t>(device), static_cast<std::size_t>(devices));
    return others ? slots - own : own;
  }
  /// The i-th of them.
  HCTR_HD std::uint32_t slot(std::uint32_t i) const {
    if (all()) return i;
    const auto n = static_cast<std::uint32_t>(devices), r = static_cast<std::uint32_t>(device);
    if (!others) return r + i * n;
    const std::uint32_t turn = i / (n - 1), place = i % (n - 1);
    return turn * n + place + (place >= r ? 1 : 0);
  }

  /// A slot of the share, for walks from one to the next, and slot % devices.
  struct At {
    std::uint32_t slot, place;
  };
  HCTR_HD At at(std::uint32_t i) const {
    const std::uint32_t s = slot(i);
    return {s, all() ? 0 : s % static_cast<std::uint32_t>(devices)};
  }
  HCTR_HD At first() const {
    const std::uint32_t s = others ? (device == 0 ? 1 : 0) : static_cast<std::uint32_t>(device);
    return {s, s};
  }
  HCTR_HD void go_on(At& at) const {
    if (!others) {
      at.slot += all() ? 1 : static_cast<std::uint32_t>(devices);
      return;
    }
    step(at);
    if (at.place == static_cast<std::uint32_t>(device)) step(at);
  }

  void visit(OpVisitor& v) {
    v.attribute("share_devices", devices);
    v.attribute("share_device", device);
    v.attribute("share_others", others);
  }
  void check(const char* op) const {
    HCTR_CHECK(devices == 0 || (devices > (others ? 1 : 0) && device >= 0 && device < devices), op,
               ": a share of device ", device, " of ", devices,
               others ? ", or rather of the others" : "",
               ", must be of one of the devices, and of others of two at least");
  }

 private:
  HCTR_HD void step(At& at) const {
    ++at.slot;
    at.place = at.place + 1 == static_cast<std::uint32_t>(devices) ? 0 : at.place + 1;
  }
};

}  // namespace hugectr
