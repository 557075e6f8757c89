// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/process_agreement.hpp"

#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "core/cpp/base/error.hpp"

namespace hugectr {

SentError SentError::of(const std::exception_ptr& error) {
  if (!error) return {};
  try {
    std::rethrow_exception(error);
  } catch (const InvalidArgument& e) {
    return {kInvalidArgument, e.what()};
  } catch (const OutOfMemory& e) {
    return {kOutOfMemory, e.what()};
  } catch (const std::bad_alloc& e) {
    return {kOutOfMemory, concat("the host has no memory left (", e.what(), ")")};
  } catch (const DeviceError& e) {
    return {kDevice, e.what()};
  } catch (const DataError& e) {
    return {kData, e.what()};
  } catch (const CommError& e) {
    return {kComm, e.what()};
  } catch (const std::exception& e) {
    return {kOther, e.what()};
  } catch (...) {
    return {kOther, "an error of an unknown type"};
  }
}

std::exception_ptr SentError::pointer() const {
  switch (kind) {
    case kNone:
      return nullptr;
    case kInvalidArgument:
      return std::make_exception_ptr(InvalidArgument(text));
    case kOutOfMemory:
      return std::make_exception_ptr(OutOfMemory(text));
    case kDevice:
      return std::make_exception_ptr(DeviceError(text));
    case kData:
      return std::make_exception_ptr(DataError(text));
    case kComm:
      return std::make_exception_ptr(CommError(text));
    case kOther:
      break;
  }
  return std::make_exception_ptr(Error(text));
}

std::exception_ptr agree(IProcessGroup& processes, const std::exception_ptr& mine) {
  const SentError error = SentError::of(mine);
  std::vector<char> letter(sizeof(error.kind) + error.text.size());
  std::memcpy(letter.data(), &error.kind, sizeof(error.kind));
  std::copy(error.text.begin(), error.text.end(), letter.begin() + sizeof(error.kind));
  const std::vector<std::vector<char>> all = processes.all_gather_any(letter);
  const auto read = [](const std::vector<char>& from) {
    SentError sent;
    std::memcpy(&sent.kind, from.data(), sizeof(sent.kind));
    sent.text.assign(from.begin() + sizeof(sent.kind), from.end());
    return sent;
  };
  for (std::size_t p = 0; p < all.size(); ++p) {
    SentError first = read(all[p]);
    if (first.kind == SentError::kNone) continue;
    const bool everywhere = std::all_of(all.begin(), all.end(),
                                        [&](const auto& other) { return other == all[p]; });
    if (!everywhere) first.text = concat("process ", p, ": ", first.text);
    return first.pointer();
  }
  return nullptr;
}

}  // namespace hugectr
