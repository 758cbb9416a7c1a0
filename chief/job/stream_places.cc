#include "chief/job/stream_places.h"

#include <algorithm>

#include "common/data/file_part.h"

namespace cohort {

void StreamPlaces::Add(const v1::StreamFile& file) {
  if (file.first_place() < end_) return;
  end_ = file.first_place() + file.places();
  Block block{.first_place = file.first_place(), .number = file.first_block()};
  for (int i = 0; i < file.block_records_size(); ++i) {
    block.records = file.block_records(i);
    block.part = std::make_shared<const v1::FilePart>(PartOf(file, i));
    blocks_.push_back(block);
    block.first_place += (block.records + batch_size_ - 1) / batch_size_;
    ++block.number;
  }
}

void StreamPlaces::DropBefore(uint64_t place) {
  const auto after =
      std::upper_bound(blocks_.begin(), blocks_.end(), place,
                       [](uint64_t p, const Block& block) { return p < block.first_place; });
  if (after != blocks_.begin()) blocks_.erase(blocks_.begin(), after - 1);
}

LeaseRange StreamPlaces::LeaseAt(uint64_t place) const {
  const auto after =
      std::upper_bound(blocks_.begin(), blocks_.end(), place,
                       [](uint64_t p, const Block& block) { return p < block.first_place; });
  if (after == blocks_.begin()) return {};
  const Block& block = *(after - 1);
  const uint64_t begin = (place - block.first_place) * batch_size_;
  if (begin >= block.records) return {};
  return {.epoch = block.number,
          .begin = begin,
          .end = std::min(block.records, begin + batch_size_),
          .part = block.part};
}

}  // namespace cohort
