#include "ps_server/shared_payload_server.h"

#include <utility>

#include "common/base/status.h"
#include "proto/shared_payload.pb.h"

namespace cohort {

absl::StatusOr<std::shared_ptr<SharedSegment>> SharedPayloadServer::Find(
    const v1::SharedPayload& word, bool first) {
  if (first && (segment_ == nullptr || segment_->id() != word.id())) {
    segment_ = nullptr;
    auto opened = SharedSegment::Open(word.pid(), word.fd(), word.id(), word.bytes());
    if (opened.ok()) segment_ = *std::move(opened);
  }
  if (segment_ != nullptr && segment_->id() != word.id()) {
    return InvalidArgument("one request names two shared segments");
  }
  if (segment_ == nullptr && word.begin_size() > 0) {
    return InvalidArgument("payloads lie in a shared segment that cannot be opened here");
  }
  return segment_;
}

// If one cannot be mapped, the answer does not name it, and the client does not use it.
void SharedPayloadServer::MapSegments(const v1::SharedPayload& word, uint64_t sequence,
                                      bool first) {
  if (first) segments_->DropIdle(sequence, {});
  segments_->Map(word, sequence).IgnoreError();
}

std::shared_ptr<Pins::Client> SharedPayloadServer::FindClient(const v1::SharedPayload& word,
                                                              Pins* pins) {
  if (word.client() == 0 || pins == nullptr) return nullptr;
  if (client_id_ != word.client()) {
    client_id_ = word.client();
    client_ = pins->Find(client_id_, word.pid());
  }
  return client_;
}

}  // namespace cohort
