// SPDX-License-Identifier: Apache-2.0
// What is called back while data is decoded may end the thread: an interpreter that finalizes does.
#include <gtest/gtest.h>
#include <pthread.h>

#include "core/cpp/base/error.hpp"
#include "core/cpp/data/block_source.hpp"
#include "core/cpp/data/data_reader.hpp"

namespace hugectr {
namespace {

const InputLayout kLayout{1, 0, true, {{"id", {1}, true, 1}}};

/// One block, and whoever decodes it is ended.
class EndingFormat final : public IBlockFormat {
 public:
  explicit EndingFormat(bool ahead) : ahead_(ahead) {}
  const std::vector<std::string>& files() const override { return files_; }
  const std::vector<BlockInfo>& blocks() const override { return blocks_; }
  bool decodes_ahead() const override { return ahead_; }
  void set_source(const std::string&) override {}
  std::shared_ptr<const IBlock> decode(std::size_t) override {
    pthread_exit(nullptr);
    return nullptr;
  }

 private:
  const bool ahead_;
  std::vector<std::string> files_{"ending"};
  std::vector<BlockInfo> blocks_{{0, 8}};
};

/// Neither an abort ("exception not rethrown") nor a reader that waits for ever.
void expect_told(bool ahead) {
  BlockReading reading;
  reading.repeat = false;
  auto source = make_block_source(std::make_unique<EndingFormat>(ahead), kLayout, reading);
  auto resources = ResourceManager::create({{0}}, 1);
  const auto reader = make_data_reader(std::move(source), kLayout, 8, 1, resources);
  try {
    reader->acquire();
    FAIL() << "a batch of nothing";
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find("a thread was ended"), std::string::npos);
  }
}

TEST(EndedThread, ThatDecodesAheadIsAnErrorOfItsBlock) { expect_told(true); }
TEST(EndedThread, ThatParsesIsAnErrorOfTheReader) { expect_told(false); }

}  // namespace
}  // namespace hugectr
