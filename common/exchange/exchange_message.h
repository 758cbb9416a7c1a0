#ifndef COHORT_COMMON_EXCHANGE_EXCHANGE_MESSAGE_H_
#define COHORT_COMMON_EXCHANGE_EXCHANGE_MESSAGE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "proto/parameter_server.pb.h"

namespace cohort {

using Bytes = std::span<const uint8_t>;

// One v1::PushPullRequest: the header, and its payload fields as references to the sender's memory.
struct ExchangeMessage {
  // Makes the message empty and keeps its memory. Clear() of a protobuf message would free the
  // parts.
  void Reset() {
    if (header.has_push()) spare_push.reset(header.release_push());
    if (header.has_pull()) spare_pull.reset(header.release_pull());
    payload.clear();
  }
  // The part, created without sections if the message does not have it. The caller sets the other
  // fields.
  v1::PushPart* push() {
    if (!header.has_push() && spare_push != nullptr) {
      spare_push->clear_sections();
      header.set_allocated_push(spare_push.release());
    }
    return header.mutable_push();
  }
  v1::PullPart* pull() {
    if (!header.has_pull() && spare_pull != nullptr) {
      spare_pull->clear_sections();
      header.set_allocated_pull(spare_pull.release());
    }
    return header.mutable_pull();
  }

  v1::PushPullHeader header;
  std::vector<Bytes> payload;
  std::unique_ptr<v1::PushPart> spare_push;
  std::unique_ptr<v1::PullPart> spare_pull;
};

// One payload field of a v1::PushPullResponse, in the pieces in which the slices hold it.
using PayloadPieces = std::span<const Bytes>;

}  // namespace cohort

#endif  // COHORT_COMMON_EXCHANGE_EXCHANGE_MESSAGE_H_
