#include "common/rpc/push_pull/payload_fields.h"

#include "common/base/status.h"
#include "common/rpc/push_pull/push_pull_codec.h"
#include "common/rpc/push_pull/shared_segment.h"
#include "proto/shared_payload.pb.h"

namespace cohort {

absl::Status PayloadFields::Find(const PushPullDecoder& decoder, const v1::SharedPayload* word,
                                 const SharedSegment* segment) {
  pieces_.clear();
  ends_.clear();
  fields_.clear();
  in_shared_memory_ = false;
  if (word != nullptr && segment != nullptr) {
    if (word->begin_size() != word->length_size()) {
      return InvalidArgument("the description of shared payloads has {} offsets, but {} lengths",
                             word->begin_size(), word->length_size());
    }
    in_shared_memory_ = word->begin_size() > 0;
  }
  if (!in_shared_memory_) {
    FindInFrame(decoder);
  } else if (decoder.payload_count() > 0) {
    return InvalidArgument("the message has payloads both in itself and in shared memory");
  } else {
    COHORT_RETURN_IF_ERROR(FindInSegment(*word, *segment));
  }
  size_t begin = 0;
  for (const size_t end : ends_) {
    fields_.emplace_back(pieces_.data() + begin, end - begin);
    begin = end;
  }
  return absl::OkStatus();
}

void PayloadFields::FindInFrame(const PushPullDecoder& decoder) {
  for (size_t i = 0; i < decoder.payload_count(); ++i) {
    decoder.payload(i).ForEachSpan([this](Bytes piece) { pieces_.push_back(piece); });
    ends_.push_back(pieces_.size());
  }
}

absl::Status PayloadFields::FindInSegment(const v1::SharedPayload& word,
                                          const SharedSegment& segment) {
  for (int i = 0; i < word.begin_size(); ++i) {
    if (!segment.Contains(word.begin(i), word.length(i))) {
      return InvalidArgument("payload {} is not in the shared segment", i);
    }
    pieces_.push_back(segment.At(word.begin(i), word.length(i)));
    ends_.push_back(pieces_.size());
  }
  return absl::OkStatus();
}

size_t PayloadFields::bytes(size_t field) const {
  size_t sum = 0;
  for (const Bytes& piece : fields_[field]) sum += piece.size();
  return sum;
}

}  // namespace cohort
