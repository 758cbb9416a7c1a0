#include "common/tablet/table_rows.h"

#include <cstring>

#include "common/tensor/table_rows.h"

namespace cohort {
namespace {

constexpr size_t kAhead = 8;

void SetAll(DType dtype, double value, uint8_t* out, int64_t elements) {
  if (dtype == DType::kFloat32) {
    std::fill_n(reinterpret_cast<float*>(out), elements, static_cast<float>(value));
  } else {
    std::fill_n(reinterpret_cast<double*>(out), elements, value);
  }
}

}  // namespace

void TableRows::Find(std::span<const int64_t> rows, std::vector<int64_t>* places) const {
  places->resize(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i + kAhead < rows.size()) PartOf(rows[i + kAhead]).prefetch(rows[i + kAhead]);
    const Part& part = PartOf(rows[i]);
    const auto found = part.find(rows[i]);
    (*places)[i] = found == part.end() ? kNoPlace : found->second;
  }
}

void TableRows::FindOrMake(std::span<const int64_t> rows, std::vector<int64_t>* places) {
  Find(rows, places);
  for (size_t i = 0; i < rows.size(); ++i) {
    int64_t& place = (*places)[i];
    if (place != kNoPlace) continue;
    const auto [made, is_new] = PartOf(rows[i]).try_emplace(rows[i], count_);
    place = made->second;
    if (!is_new) continue;  // the same row came before
    Take(rows[i]);
    const UpdateTarget target = blocks_->TargetInPlace(blocks_->MutableBlockOf(place));
    const auto offset = static_cast<size_t>(place - blocks_->BlockOf(place).row_begin);
    const auto row_at = [&](void* tensor) {
      return static_cast<uint8_t*>(tensor) + offset * info_->row_bytes();
    };
    FirstValues(rows[i], row_at(target.variable_out));
    for (size_t s = 0; s < info_->slots.size(); ++s) {
      const SlotInfo& slot = info_->slots[s];
      uint8_t* const out = row_at(target.slots_out[s]);
      if (slot.is_copy) {
        FirstValues(rows[i], out);
      } else {
        SetAll(info_->dtype, slot.initial_value, out, info_->row_elements);
      }
    }
  }
}

void TableRows::FirstValues(int64_t row, void* out) const {
  const int64_t key = KeyOfRow(info_->row_begin + row);
  const uint64_t begin = static_cast<uint64_t>(key) * static_cast<uint64_t>(info_->row_elements);
  initializer_.Fill(info_->dtype, begin, begin + static_cast<uint64_t>(info_->row_elements), out);
}

void TableRows::Add(std::span<const int64_t> rows,
                    std::span<const std::span<const uint8_t>> tensors) {
  const size_t row_bytes = info_->row_bytes();
  for (size_t i = 0; i < rows.size(); ++i) {
    const int64_t place = Take(rows[i]);
    PartOf(rows[i]).emplace(rows[i], place);
    const UpdateTarget target = blocks_->TargetInPlace(blocks_->MutableBlockOf(place));
    const auto offset = static_cast<size_t>(place - blocks_->BlockOf(place).row_begin) * row_bytes;
    for (size_t t = 0; t < tensors.size(); ++t) {
      void* const to = t == 0 ? target.variable_out : target.slots_out[t - 1];
      std::memcpy(static_cast<uint8_t*>(to) + offset, tensors[t].data() + i * row_bytes, row_bytes);
    }
  }
}

int64_t TableRows::Take(int64_t row) {
  const int64_t place = count_++;
  if (place >= blocks_->rows()) blocks_->AddBlock();
  blocks_->SetRowAt(place, row);
  return place;
}

}  // namespace cohort
