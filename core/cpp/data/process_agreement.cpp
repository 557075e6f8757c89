// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/process_agreement.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <vector>

namespace hugectr {

PlacedDataError::~PlacedDataError() = default;

SentError SentError::of(const std::exception_ptr& error) {
  if (!error) return {};
  try {
    std::rethrow_exception(error);
  } catch (const InvalidArgument& e) {
    return {kInvalidArgument, 0, e.what()};
  } catch (const OutOfMemory& e) {
    return {kOutOfMemory, 0, e.what()};
  } catch (const std::bad_alloc& e) {
    return {kOutOfMemory, 0, concat("the host has no memory left (", e.what(), ")")};
  } catch (const DeviceError& e) {
    return {kDevice, 0, e.what()};
  } catch (const PlacedDataError& e) {
    return {kData, e.place, e.what()};
  } catch (const DataError& e) {
    return {kData, 0, e.what()};
  } catch (const CommError& e) {
    return {kComm, 0, e.what()};
  } catch (const std::exception& e) {
    return {kOther, 0, e.what()};
  } catch (...) {
    return {kOther, 0, "an error of an unknown type"};
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
  const std::array<std::uint64_t, 2> head{error.kind, error.place};
  std::vector<char> letter(sizeof(head) + error.text.size());
  std::memcpy(letter.data(), head.data(), sizeof(head));
  std::copy(error.text.begin(), error.text.end(), letter.begin() + sizeof(head));
  std::vector<SentError> all;
  for (const std::vector<char>& from : processes.all_gather_any(letter)) {
    std::array<std::uint64_t, 2> sent{};
    std::memcpy(sent.data(), from.data(), sizeof(sent));
    all.push_back({static_cast<SentError::Kind>(sent[0]), sent[1],
                   std::string(from.begin() + sizeof(sent), from.end())});
  }
  const SentError* first = nullptr;
  for (const SentError& sent : all) {
    if (sent.kind != SentError::kNone && (!first || sent.place < first->place)) first = &sent;
  }
  if (!first) return nullptr;
  SentError result = *first;
  const bool everywhere = std::all_of(all.begin(), all.end(),
                                      [&](const SentError& e) { return e.text == first->text; });
  if (!everywhere) result.text = concat("process ", first - all.data(), ": ", first->text);
  return result.pointer();
}

}  // namespace hugectr
