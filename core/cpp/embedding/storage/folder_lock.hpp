// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

namespace hugectr {

/// Ownership of a folder of segments: one store of one process, until it ends, however it ends.
/// Holds between processes of one machine, and of several where the file system's locks do.
class FolderLock {
 public:
  /// Makes the folder if it is missing. Throws InvalidArgument that names the owner if there is
  /// one that stays for half a second, DataError if the folder can not be had.
  FolderLock(const std::string& folder, const std::string& table);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

/// A store among those of this process whose folders lie in one.
class StoreBesideOthers {
 public:
  explicit StoreBesideOthers(const std::string& folder);
  ~StoreBesideOthers();
  StoreBesideOthers(const StoreBesideOthers&) = delete;
  StoreBesideOthers& operator=(const StoreBesideOthers&) = delete;
  /// Whether there was none when it came: who looks for what others have left.
  bool is_first() const { return is_first_; }

 private:
  const std::string parent_;
  bool is_first_ = false;
};

/// Removes the segments of an owner that is gone, and nothing else. Returns how many.
std::size_t remove_leftovers(const std::string& folder);

/// The same for the folders of stores beside this one that have no owner any more: those of tables
/// or devices that the model which opens them now does not have. Folders that can not be read stay.
std::size_t remove_leftovers_beside(const std::string& folder);

}  // namespace hugectr
