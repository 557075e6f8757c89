// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace hugectr {

/// While it lives, its thread may call OpenBLAS. That library ends the process when it gets no
/// memory for the buffer of one more call at the same time, or for its variables of one more
/// thread; so the room for both is looked for before. Throws OutOfMemory when it is not there.
class BlasRoom {
 public:
  BlasRoom();
  ~BlasRoom();
  BlasRoom(const BlasRoom&) = delete;
  BlasRoom& operator=(const BlasRoom&) = delete;
};

}  // namespace hugectr
