// SPDX-License-Identifier: Apache-2.0
#include "core/cpp/data/arrow_format.hpp"

#include <utility>

#include "core/cpp/base/error.hpp"
#include "core/cpp/data/arrow_block.hpp"

namespace hugectr {
namespace {

class ArrowFormat final : public IBlockFormat {
 public:
  ArrowFormat(const std::string& source, ArrowDecoder decoder, const ArrowMapping& mapping,
              const InputLayout& layout, OnBadData on_bad_data)
      : decoder_(std::move(decoder)),
        mapping_(mapping),
        layout_(layout),
        on_bad_data_(on_bad_data) {
    const std::size_t slots = layout_.total_slots();
    HCTR_CHECK(mapping_.labels.size() == layout_.label_dim &&
                   mapping_.dense.size() == layout_.dense_dim && mapping_.slots.size() == slots,
               "columns: ", mapping_.labels.size(), " label, ", mapping_.dense.size(),
               " dense and ", mapping_.slots.size(), " categorical columns, the model's Input has ",
               layout_.label_dim, ", ", layout_.dense_dim, " and ", slots);
    HCTR_CHECK(mapping_.slot_offsets.empty() || mapping_.slot_offsets.size() == slots,
               "columns: slot_size_array has ", mapping_.slot_offsets.size(), " sizes for ", slots,
               " slots: give one a slot, or none");
    set_source(source);
  }

  const std::vector<std::string>& files() const override { return source_.files; }
  const std::vector<BlockInfo>& blocks() const override { return source_.blocks; }

  std::shared_ptr<const IBlock> decode(std::size_t block) override {
    const BlockInfo& info = source_.blocks.at(block);
    auto batch = std::make_unique<ArrowBatch>();
    decoder_.decode(block, &batch->schema, &batch->array);
    std::size_t first = block;
    while (first > 0 && source_.blocks[first - 1].file == info.file) --first;
    const std::string& file = source_.files.at(info.file);
    HCTR_CHECK(batch->array.release && batch->schema.release, "'", file, "', block ", block - first,
               " was not decoded");
    return std::make_shared<ArrowBlock>(std::move(batch), mapping_, layout_, info.rows,
                                        on_bad_data_, file, block - first, damage_);
  }

  void set_source(const std::string& source) override {
    ArrowSource opened = decoder_.open(source);
    for (const BlockInfo& block : opened.blocks) {
      HCTR_CHECK(block.rows > 0 && block.file < opened.files.size(),
                 "the decoder of a source lists an empty block");
    }
    source_ = std::move(opened);
  }

 private:
  const ArrowDecoder decoder_;
  const ArrowMapping mapping_;
  const InputLayout layout_;
  const OnBadData on_bad_data_;
  ArrowSource source_;
  DamageLog damage_;
};

}  // namespace

std::unique_ptr<IBlockFormat> make_arrow_format(const std::string& source, ArrowDecoder decoder,
                                                const ArrowMapping& mapping,
                                                const InputLayout& layout, OnBadData on_bad_data) {
  return std::make_unique<ArrowFormat>(source, std::move(decoder), mapping, layout, on_bad_data);
}

}  // namespace hugectr
