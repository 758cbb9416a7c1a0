#ifndef COHORT_COMMON_RPC_PUSH_PULL_PAYLOAD_FIELDS_H_
#define COHORT_COMMON_RPC_PUSH_PULL_PAYLOAD_FIELDS_H_

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cohort {

namespace v1 {
class SharedPayload;
}

class PushPullDecoder;
class SharedSegment;

// Where the payload fields of one message lie: in the slices of its frame, or in memory that both
// ends map (proto/shared_payload.proto). A field is a list of pieces: one for each slice that it
// crosses, one if it lies in shared memory, none if it is empty. Both ends of a PushPull stream
// read messages with it. It reuses its memory from message to message. Not thread-safe.
//
//   COHORT_RETURN_IF_ERROR(decoder.Decode(std::move(frame), &header));
//   COHORT_RETURN_IF_ERROR(fields.Find(decoder, word, segment));
//   for (const PayloadFields::Pieces& pieces : fields.all()) ...
class PayloadFields {
 public:
  using Bytes = std::span<const uint8_t>;
  using Pieces = std::span<const Bytes>;

  // `pieces`: for how many of them memory is taken at once.
  explicit PayloadFields(size_t pieces = 0) { pieces_.reserve(pieces); }

  // Finds the fields of the message that `decoder` holds. `word` says which bytes of `segment`, and
  // of `peers` (by SharedPayload.segments; null: not mapped here), are fields. If `word` is null,
  // or names no bytes, all fields are in the frame. The result is valid as long as the decoder
  // holds the frame and the segments are mapped. Errors: InvalidArgument if `word` contradicts
  // itself, if it names bytes outside of the segments, or if it leaves fields of the frame.
  absl::Status Find(const PushPullDecoder& decoder, const v1::SharedPayload* word,
                    const SharedSegment* segment, std::span<const SharedSegment* const> peers = {});

  size_t size() const { return fields_.size(); }
  Pieces operator[](size_t field) const { return fields_[field]; }
  std::span<const Pieces> all() const { return fields_; }
  // Whether the fields lie in shared memory, which the peer can write at any time.
  bool in_shared_memory() const { return in_shared_memory_; }
  // By field: 1 if it lies in one of `peers`, else 0. Empty: none does.
  std::span<const uint8_t> in_peers() const { return in_peers_; }
  // Bytes of one field.
  size_t bytes(size_t field) const;

  // Forgets the pieces of one field, because the caller has its bytes elsewhere.
  void Forget(size_t field) { fields_[field] = {}; }
  // Forgets all fields.
  void Clear() {
    fields_.clear();
    in_peers_.clear();
  }
  // Memory of this object's own, which it keeps.
  size_t own_bytes() const {
    return pieces_.capacity() * sizeof(Bytes) + ends_.capacity() * sizeof(size_t) +
           fields_.capacity() * sizeof(Pieces) + in_peers_.capacity();
  }

 private:
  void AddFromFrame(const PushPullDecoder& decoder, size_t payload);
  absl::Status FindInSegments(const PushPullDecoder& decoder, const v1::SharedPayload& word,
                              const SharedSegment* segment,
                              std::span<const SharedSegment* const> peers);

  std::vector<Bytes> pieces_;  // those of all fields, in order
  std::vector<size_t> ends_;   // by field: the end of its pieces
  std::vector<Pieces> fields_;
  std::vector<uint8_t> in_peers_;
  bool in_shared_memory_ = false;
};

}  // namespace cohort

#endif  // COHORT_COMMON_RPC_PUSH_PULL_PAYLOAD_FIELDS_H_
