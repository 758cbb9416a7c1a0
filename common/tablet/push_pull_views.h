#ifndef COHORT_COMMON_TABLET_PUSH_PULL_VIEWS_H_
#define COHORT_COMMON_TABLET_PUSH_PULL_VIEWS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/graph/program.h"
#include "common/graph/step_membership.h"
#include "common/tablet/applied_set.h"
#include "common/tensor/buffer.h"

namespace cohort {

// A request of the data path as tablets see it: the fields of v1.PushPullHeader, and references to
// the payload. Payload views are contiguous and aligned to 8 bytes, except the values of a dense
// gradient. They stay valid during the call.

// The keys of an entry.
inline std::span<const int64_t> KeysOf(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const int64_t*>(bytes.data()), bytes.size() / sizeof(int64_t)};
}

// v1.PushEntry with its payload. Sizes are as the peer gave them: not checked yet.
struct PushEntryView {
  uint32_t shard = 0;
  PushKind kind = PushKind::kRecordOnly;
  bool sparse = false;
  uint64_t begin = 0;
  uint64_t count = 0;
  double momentum = 0;
  bool summed_elsewhere = false;    // kRecordOnly: another push of the step brings the gradient
  std::span<const uint8_t> keys;    // sparse: int64, shard-local rows
  std::span<const uint8_t> values;  // in the variable's dtype
  // If not empty, holds the values instead of `values`: consecutive pieces, cut anywhere, without
  // alignment. Only dense gradients have pieces.
  std::span<const std::span<const uint8_t>> pieces;

  size_t value_bytes() const {
    size_t bytes = values.size();
    for (const auto& piece : pieces) bytes += piece.size();
    return bytes;
  }
};

struct PushSectionView {
  uint32_t tablet = 0;
  uint64_t term = 0;
  uint64_t pulled_version = 0;
  std::span<const PushEntryView> entries;
};

// The fields that all push sections of a request share.
struct PushHeaderView {
  UpdateKey id;
  uint32_t attempt = 0;
  uint64_t place = 0;
  uint64_t timeline = 0;
  double weight = 0;
  StepMembership step;
  int64_t iteration_offset = 0;  // the optimizer sees place + id.ordinal + this
  bool operator==(const PushHeaderView&) const = default;
};

struct PullEntryView {
  uint32_t shard = 0;
  bool rows = false;
  bool average = false;  // the variable's average (use_ema) instead of its value, if it has one
  uint64_t count = 0;
  std::span<const uint8_t> keys;  // rows: int64, shard-local
};

struct PullSectionView {
  uint32_t tablet = 0;
  uint64_t term = 0;
  std::span<const PullEntryView> entries;
};

// One whole request (all of its messages).
struct RequestView {
  uint64_t sequence = 0;
  uint64_t generation = 0;
  uint64_t settled_watermark = 0;
  bool has_push = false;
  PushHeaderView push;
  std::vector<PushSectionView> push_sections;
  uint64_t pull_step = 0;  // the pull is answered when all steps before it are closed; 0: at once
  std::vector<PullSectionView> pull_sections;
};

// One payload field of a response: a range of a buffer that the response shares.
struct PayloadSlice {
  BufferRef buffer;
  size_t offset = 0;
  size_t bytes = 0;
  bool lent = false;  // the client reads it where it is
};

}  // namespace cohort

#endif  // COHORT_COMMON_TABLET_PUSH_PULL_VIEWS_H_
