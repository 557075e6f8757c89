// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace hugectr {

/// What makes a row another row: a property of the table, kept in its files, and with the seed all
/// that decides a row's first content. No placement changes it.
enum class Identity { Key, SlotAndKey };

}  // namespace hugectr
