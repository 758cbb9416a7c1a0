#include "common/rpc/push_pull/payload_fields.h"

#include "common/base/status.h"
#include "common/rpc/push_pull/push_pull_codec.h"
#include "common/rpc/push_pull/shared_segment.h"
#include "proto/shared_payload.pb.h"

namespace cohort {

absl::Status PayloadFields::Find(const PushPullDecoder& decoder, const v1::SharedPayload* word,
                                 const SharedSegment* segment,
                                 std::span<const SharedSegment* const> peers) {
  pieces_.clear();
  ends_.clear();
  fields_.clear();
  in_peers_.clear();
  in_shared_memory_ = false;
  if (word != nullptr && (segment != nullptr || !peers.empty())) {
    if (word->begin_size() != word->length_size() ||
        (word->in_segment_size() > 0 && word->in_segment_size() != word->begin_size())) {
      return InvalidArgument(
          "the description of shared payloads has {} offsets, but {} lengths and {} segments",
          word->begin_size(), word->length_size(), word->in_segment_size());
    }
    in_shared_memory_ = word->begin_size() > 0;
  }
  if (in_shared_memory_) {
    COHORT_RETURN_IF_ERROR(FindInSegments(decoder, *word, segment, peers));
  } else {
    for (size_t i = 0; i < decoder.payload_count(); ++i) AddFromFrame(decoder, i);
  }
  size_t begin = 0;
  for (const size_t end : ends_) {
    fields_.emplace_back(pieces_.data() + begin, end - begin);
    begin = end;
  }
  return absl::OkStatus();
}

void PayloadFields::AddFromFrame(const PushPullDecoder& decoder, size_t payload) {
  decoder.payload(payload).ForEachSpan([this](Bytes piece) { pieces_.push_back(piece); });
  ends_.push_back(pieces_.size());
}

absl::Status PayloadFields::FindInSegments(const PushPullDecoder& decoder,
                                           const v1::SharedPayload& word,
                                           const SharedSegment* segment,
                                           std::span<const SharedSegment* const> peers) {
  size_t of_frame = 0;
  for (int i = 0; i < word.begin_size(); ++i) {
    const size_t peer = word.in_segment_size() > 0 ? word.in_segment(i) : 0;
    if (word.in_segment_size() > 0) in_peers_.push_back(peer > 0 ? 1 : 0);
    if (peer == 0 && word.begin(i) == 0 && word.in_segment_size() > 0 &&
        of_frame < decoder.payload_count()) {
      AddFromFrame(decoder, of_frame++);
      continue;
    }
    if (peer > peers.size()) {
      return InvalidArgument("payload {} is in segment {} of {}", i, peer, peers.size());
    }
    const SharedSegment* const in = peer == 0 ? segment : peers[peer - 1];
    if (peer == 0 && segment == nullptr) {  // given up: the field counts as empty
      ends_.push_back(pieces_.size());
      continue;
    }
    const bool inside = in != nullptr && (peer == 0 ? in->Contains(word.begin(i), word.length(i))
                                                    : in->Covers(word.begin(i), word.length(i)));
    if (!inside) {
      return InvalidArgument("payload {} is not in the shared segment", i);
    }
    pieces_.push_back(in->At(word.begin(i), word.length(i)));
    ends_.push_back(pieces_.size());
  }
  if (of_frame == decoder.payload_count()) return absl::OkStatus();
  return InvalidArgument("the message has {} payloads that its shared ones leave out",
                         decoder.payload_count() - of_frame);
}

size_t PayloadFields::bytes(size_t field) const {
  size_t sum = 0;
  for (const Bytes& piece : fields_[field]) sum += piece.size();
  return sum;
}

}  // namespace cohort
