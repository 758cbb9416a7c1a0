#ifndef COHORT_PS_SERVER_REQUEST_ASSEMBLER_H_
#define COHORT_PS_SERVER_REQUEST_ASSEMBLER_H_

#include <absl/status/status.h>

#include <cstdint>
#include <span>
#include <vector>

#include "common/tablet/push_pull_views.h"
#include "common/tensor/compact_bytes.h"

namespace cohort {

namespace v1 {
class PushPart;
class PushEntry;
class PushSection;
class PullPart;
class PushPullHeader;
}  // namespace v1

// Puts the messages of one request (all but the last have `more`) together as one RequestView.
// Reuses its memory from request to request: in the steady state it allocates nothing. Not
// thread-safe.
//
//   COHORT_RETURN_IF_ERROR(assembler.Add(header, payload));
//   if (!header.more()) core.Handle(assembler.Finish(), ...);
class RequestAssembler {
 public:
  using Payload = std::span<const std::span<const uint8_t>>;
  // By payload field: if not empty, its bytes in pieces. Only values of dense gradients have
  // pieces.
  using Pieces = std::span<const std::span<const std::span<const uint8_t>>>;

  // Adds a message. The header is read only during the call. The payload's bytes (and the list of
  // pieces) must stay valid until the view is no longer used; bytes in one piece are aligned to 8.
  // `pieces` may be empty as a whole. Errors: InvalidArgument if the entries and the payload fields
  // do not fit, or messages of one request contradict each other; ResourceExhausted for more
  // messages, sections or entries than one request may have. The assembler is then empty.
  absl::Status Add(const v1::PushPullHeader& header, Payload payload, Pieces pieces = {});

  // The whole request; valid until the next Add. The next Add begins a new request.
  const RequestView& Finish();
  // Drops what was added.
  void Clear();
  // Releases the memory that only a request of more than `entries` entries needs. Invalidates the
  // result of Finish. Returns the bytes that it keeps.
  size_t Trim(size_t entries);
  // The memory of the request here, without its payload.
  size_t bytes() const;

  bool empty() const { return messages_ == 0; }
  // The sequence number of the request that is being assembled.
  uint64_t sequence() const { return view_.sequence; }

 private:
  struct PushSection {
    PushSectionView view;
    std::vector<PushEntryView> entries;
  };
  struct PullSection {
    PullSectionView view;
    std::vector<PullEntryView> entries;
  };

  absl::Status AddMessage(const v1::PushPullHeader& header, Payload payload, Pieces pieces);
  absl::Status AddPush(const v1::PushPart& part, Payload payload, Pieces pieces, size_t* next);
  absl::Status AddPull(const v1::PullPart& part, Payload payload, size_t* next);
  // Takes the header of a push; all messages of one request must have the same one.
  absl::Status TakeHeader(const PushHeaderView& header);
  // Compact payload (PushEntry.key_bytes, PushEntry.bfloat16) as the views have it.
  absl::Status Widen(const v1::PushEntry& entry, PushEntryView* view);
  absl::Status WidenKeyBytes(uint32_t key_bytes, std::span<const uint8_t>* keys);
  // Finds the place for the entries of a section: after those of earlier sections of its tablet.
  absl::Status FindSection(const v1::PushSection& section, PushSection** out);
  absl::Status Begin(const v1::PushPullHeader& header);

  RequestView view_;
  size_t messages_ = 0;
  size_t sections_ = 0;
  size_t entries_ = 0;  // pushes and pulls together
  size_t pull_entries_ = 0;
  bool has_pull_ = false;
  StableMemory widened_;
  // The first n are in use; the others keep their memory for later.
  std::vector<PushSection> pushes_;
  size_t used_pushes_ = 0;
  std::vector<PullSection> pulls_;
  size_t used_pulls_ = 0;
};

}  // namespace cohort

#endif  // COHORT_PS_SERVER_REQUEST_ASSEMBLER_H_
