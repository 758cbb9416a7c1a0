#include "ps_server/copies/copy_receiver.h"

#include <utility>

#include "common/base/status.h"

namespace cohort {

void CopyReceiver::OnFrame(Frame frame) {
  if (!reads_payload_) {
    if (absl::Status status = ParseFromFrame(frame, &entry_); !status.ok()) {
      return stream_->Close(std::move(status));
    }
    reads_payload_ = entry_.push() || (entry_.has_state() && !entry_.state().has_cut());
    if (!reads_payload_) stream_->Send(SerializeToFrame(core_->OnCopyEntry(entry_, {})));
    return;
  }
  if (entry_.has_state()) return ReadState(std::move(frame));
  if (absl::Status status = ReadPush(std::move(frame)); !status.ok()) {
    core_->metrics()->bad_requests->Increment();
    return stream_->Close(std::move(status));
  }
  if (header_.more()) return messages_.KeepNewest();
  reads_payload_ = false;
  stream_->Send(SerializeToFrame(core_->OnCopyEntry(entry_, {.push = &assembler_.Finish()})));
  assembler_.Clear();
  messages_.Clear();
}

void CopyReceiver::ReadState(Frame frame) {
  reads_payload_ = false;
  RequestMessage* const message = messages_.Next();
  header_.Clear();
  if (absl::Status status = message->decoder.Decode(std::move(frame), &header_); !status.ok()) {
    return stream_->Close(std::move(status));
  }
  std::vector<BufferRef> fields;
  std::vector<std::span<const uint8_t>> payload;
  for (size_t i = 0; i < message->decoder.payload_count(); ++i) {
    const PayloadView view = message->decoder.payload(i);
    fields.push_back(core_->pool()->Allocate(view.size()));
    view.CopyTo(fields.back()->data());
    payload.emplace_back(fields.back()->data(), view.size());
  }
  stream_->Send(SerializeToFrame(core_->OnCopyEntry(entry_, {.state = payload})));
  messages_.Clear();
}

absl::Status CopyReceiver::ReadPush(Frame frame) {
  RequestMessage* const message = messages_.Next();
  header_.Clear();
  COHORT_RETURN_IF_ERROR(message->decoder.Decode(std::move(frame), &header_));
  COHORT_RETURN_IF_ERROR(message->ReadPayload(header_, nullptr, nullptr, nullptr, core_->pool()));
  return assembler_.Add(header_, message->payload, message->fields.all());
}

}  // namespace cohort
