// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/cpp/base/device_id.hpp"
#include "core/cpp/base/export.hpp"
#include "core/cpp/model/session.hpp"

namespace hugectr {

/// A checkpoint of Model.save as a model for prediction: what Python's hugectr.load reads, by the
/// same code.
///
///   hugectr::SavedModel model("run");
///   const hugectr::Predictor predictor(model.session());
class HCTR_API SavedModel {
 public:
  /// `path`: a checkpoint, or a folder of them: then the newest. Of a delta all that it builds on
  /// is read. `batch_size`: rows that are evaluated at once; 0: as many as the model that saved had
  /// evaluated (2048 where the checkpoint does not say).
  /// Throws InvalidArgument when there is no checkpoint, or one that does not describe its model
  /// (formats 1 and 2, converted from the original layout); DataError when a file is missing,
  /// damaged or of a later version; OutOfMemory when the device has no room.
  explicit SavedModel(const std::string& path, DeviceType device = DeviceType::Cpu,
                      std::size_t batch_size = 0);
  ~SavedModel();
  SavedModel(const SavedModel&) = delete;
  SavedModel& operator=(const SavedModel&) = delete;

  Session& session() { return *session_; }
  /// What samples have to hold.
  const InputSpec& input() const { return input_; }
  /// Updates that its weights have seen.
  std::int64_t step() const { return session_->step(); }

 private:
  InputSpec input_;
  std::unique_ptr<Session> session_;
};

/// What a checkpoint says of its model and of the data that it saw, for who builds the model: all
/// but the weights.
struct SavedDescription {
  std::string path;  ///< of the checkpoint itself
  std::int64_t step = 0;
  std::size_t batchsize_eval = 0;  ///< 0: it does not say
  std::string model;               ///< the description of the manifest, as JSON; "": it has none
  std::string schema;  ///< name -> bytes, chunk_bytes, crc32 of the schema's files, as JSON
  /// Of each table: rows of the checkpoint and of all that it builds on; what is in several of
  /// them counts as often.
  std::vector<std::size_t> table_rows;
};

/// Reads it, as far as SavedModel would before any weight: manifests are checked, files are there
/// with their sizes, and this version can build the model that is described.
/// Throws as SavedModel; a checkpoint that does not describe its model is none of its errors.
HCTR_API SavedDescription read_description(const std::string& path);

/// Gives a session that does not train, with one device, the dense weights, running statistics,
/// rows and step of a checkpoint of its very model; optimizer states are not read. What is read is
/// checked, chunk by chunk, and memory holds a chunk besides the rows.
/// Throws as SavedModel; InvalidArgument when it is of another model. What the session then holds
/// is of no use.
HCTR_API void load_weights(Session& session, const std::string& path);

}  // namespace hugectr
