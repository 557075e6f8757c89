// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/model/session_reader.hpp"

#include <exception>

#include "core/cpp/model/session_state.hpp"

namespace hugectr {
namespace {

IDataReader& training(const SessionState& session, const char* call) {
  HCTR_CHECK(session.train_reader, call,
             ": the model does not train, it reads the evaluation data only");
  return *session.train_reader;
}

}  // namespace

SessionReader::SessionReader(SessionState& session) : session_(session) {}

void SessionReader::start() {
  const SessionState::Call call(session_);
  if (session_.train_reader) session_.train_reader->start();
  if (session_.eval_reader) session_.eval_reader->start();
}

void SessionReader::stop() { session_.stop_reading(); }

void SessionReader::set_source(const std::string& source) {
  const SessionState::Call call(session_);
  IDataReader& reader = training(session_, "set_source");
  session_.planner->discard();
  reader.set_source(source);
  session_.at_end = false;
  session_.trained_to = {};
}

void SessionReader::set_eval_source(const std::string& source) {
  const SessionState::Call call(session_);
  HCTR_CHECK(session_.eval_reader, "set_eval_source: the model was built without an eval_source");
  session_.eval_reader->set_source(source);
  session_.eval_at_end = false;
}

bool SessionReader::at_end() const { return session_.at_end; }
bool SessionReader::eval_at_end() const { return session_.eval_at_end; }
std::size_t SessionReader::eval_samples() const { return session_.eval_samples; }

ReadPosition SessionReader::position() const { return session_.trained_to; }

void SessionReader::set_position(const ReadPosition& position) {
  const SessionState::Call call(session_);
  IDataReader& reader = training(session_, "set_position");
  session_.planner->discard();
  try {
    reader.seek(position);
  } catch (...) {
    const std::exception_ptr refused = std::current_exception();
    try {
      reader.seek(session_.trained_to);
    } catch (...) {  // the data is gone: reading says so
    }
    std::rethrow_exception(refused);
  }
  session_.at_end = false;
  session_.trained_to = position;
}

ReaderMetrics SessionReader::metrics(bool train) {
  if (train) return training(session_, "metrics").metrics();
  HCTR_CHECK(session_.eval_reader, "the model was built without an eval_source");
  return session_.eval_reader->metrics();
}

}  // namespace hugectr
