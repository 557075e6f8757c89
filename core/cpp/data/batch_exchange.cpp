// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/batch_exchange.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cpp/base/random.hpp"
#include "core/cpp/data/process_agreement.hpp"

namespace hugectr {
namespace {

/// Equal for the same batch of the same data.
std::uint64_t digest_of(const CSRChunk& part) {
  std::uint64_t digest = mix_key(part.sequence, part.samples);
  const ReadPosition& next = part.next;
  for (const std::uint64_t value : {next.epoch, next.sample, next.file, next.record}) {
    digest = mix_key(digest, value);
  }
  for (const BatchRun& run : part.runs) digest = mix_key(mix_key(digest, run.process), run.samples);
  return digest;
}

}  // namespace

BatchExchange::BatchExchange(std::shared_ptr<IProcessGroup> processes, const InputLayout& layout,
                             std::size_t batch_size, ResourceManager& resources)
    : processes_(std::move(processes)),
      layout_(layout),
      batch_size_(batch_size),
      pool_(resources.pool()),
      parts_(layout, batch_size, resources),
      outgoing_(make_host_memory_resource()),
      incoming_(make_host_memory_resource()) {
  const auto memory = resources.get_local_gpu(0).staging_resource();
  for (std::size_t i = 0; i < kWholes; ++i) {
    wholes_.push_back(make_csr_chunk(layout, batch_size, memory));
  }
}

void BatchExchange::begin_pass() {
  free_wholes_.clear();
  for (CSRChunk& whole : wholes_) free_wholes_.push_back(&whole);
  over_ = false;
}

CSRChunk* BatchExchange::exchange(const CSRChunk& part) {
  over_ = true;  // also when the group breaks on the way
  parts_.begin(part.runs);
  const Greeting mine{kPart, digest_of(part), part.skipped, part.next.byte};
  const std::vector<Greeting> all = greet(mine, parts_.note(part));
  if (const auto error = conclude(kPart, all, nullptr)) std::rethrow_exception(error);
  send_letters(part);
  over_ = false;

  HCTR_CHECK(!free_wholes_.empty(), "data reader: more batches are being copied than there are");
  CSRChunk& whole = *free_wholes_.back();
  free_wholes_.pop_back();
  whole.sequence = part.sequence;
  whole.samples = part.samples;
  whole.next = part.next;
  whole.skipped = 0;
  whole.lost = part.lost;  // by claims, which are the same everywhere
  whole.first_damage = part.first_damage;
  for (const Greeting& greeting : all) {
    whole.skipped += greeting.skipped;
    whole.next.byte = std::max(whole.next.byte, greeting.next_byte);
  }
  parts_.merge(notes_, letters_, whole);
  pad_samples(layout_, whole.samples, batch_size_, whole);
  return &whole;
}

std::exception_ptr BatchExchange::leave(std::exception_ptr error, bool stopped) noexcept {
  if (over_) return error;
  over_ = true;
  try {
    const std::uint64_t word = stopped ? kStop : error ? kFailed : kEnd;
    const Greeting mine{word, 0, 0, 0};
    return conclude(word, greet(mine, BatchParts::Note(layout_.sparse.size())), error);
  } catch (...) {
    return error ? error : std::current_exception();
  }
}

std::vector<BatchExchange::Greeting> BatchExchange::greet(const Greeting& mine,
                                                          const BatchParts::Note& note) {
  const std::size_t note_bytes = note.size() * sizeof(BatchParts::InputNote);
  const std::size_t bytes = sizeof(Greeting) + note_bytes;
  std::vector<char> in(bytes), out(bytes * processes_->size());
  std::memcpy(in.data(), &mine, sizeof(mine));
  if (note_bytes > 0) std::memcpy(in.data() + sizeof(mine), note.data(), note_bytes);
  processes_->all_gather(in.data(), bytes, out.data());
  std::vector<Greeting> all(processes_->size());
  notes_.assign(processes_->size(), note);
  for (std::size_t p = 0; p < all.size(); ++p) {
    const char* from = out.data() + p * bytes;
    std::memcpy(&all[p], from, sizeof(Greeting));
    if (note_bytes > 0) std::memcpy(notes_[p].data(), from + sizeof(Greeting), note_bytes);
  }
  return all;
}

/// The error that ends the pass for this process, if one does. Collective: what is decided here is
/// decided from the same words everywhere.
std::exception_ptr BatchExchange::conclude(std::uint64_t word, const std::vector<Greeting>& all,
                                           const std::exception_ptr& error) {
  const auto said = [&](std::uint64_t what) {
    return std::find_if(all.begin(), all.end(), [&](const Greeting& g) { return g.word == what; });
  };
  if (said(kFailed) != all.end()) return agree(*processes_, error);
  if (const auto stopped = said(kStop); stopped != all.end()) {
    if (word == kStop || word == kEnd) return nullptr;
    return std::make_exception_ptr(CommError(
        concat("process ", stopped - all.begin(),
               " of the job has left its data where this one asks for another batch: all of them "
               "must ask for the same number before they set a source, seek or close")));
  }
  const bool same = std::all_of(all.begin(), all.end(), [&](const Greeting& g) {
    return g.word == all.front().word && g.batch == all.front().batch;
  });
  if (same) return nullptr;
  return std::make_exception_ptr(DataError(
      "the processes of the job do not see the same data (other sizes or another order of its "
      "blocks): give all of them the same files and settings, or read with replicated=True"));
}

void BatchExchange::send_letters(const CSRChunk& part) {
  const std::size_t size = processes_->size(), rank = processes_->rank();
  std::vector<std::size_t> send(size), receive(size);
  std::size_t out = 0, in = 0;
  for (std::size_t p = 0; p < size; ++p) {
    out += send[p] = parts_.letter_bytes(rank, p, notes_[rank]);
    in += receive[p] = parts_.letter_bytes(p, rank, notes_[p]);
  }
  try {
    // The own letter lies last and stays here.
    outgoing_.reserve(std::max<std::size_t>(out, 1));
    incoming_.reserve(std::max<std::size_t>(in, 1));
    std::vector<char*> to(size);
    char* at = outgoing_.as<char>();
    for (std::size_t p = 0; p < size; ++p) {
      if (p == rank) continue;
      to[p] = at;
      at += send[p];
    }
    to[rank] = at;
    parallel_for(pool_, size, 1, [&](std::size_t begin, std::size_t end) {
      for (std::size_t p = begin; p < end; ++p) parts_.write(part, notes_[rank], p, to[p]);
    });
    send[rank] = receive[rank] = 0;
    processes_->all_to_all(outgoing_.as<char>(), send, incoming_.as<char>(), receive);
    letters_.assign(size, to[rank]);
    const char* from = incoming_.as<char>();
    for (std::size_t p = 0; p < size; ++p) {
      if (p == rank) continue;
      letters_[p] = from;
      from += receive[p];
    }
  } catch (const CommError&) {
    throw;
  } catch (const std::exception& error) {
    // The others wait for letters that can not be written.
    processes_->abort(
        concat("process ", rank, " could not send its part of a batch: ", cause_of(error)));
    throw;
  }
}

}  // namespace hugectr
