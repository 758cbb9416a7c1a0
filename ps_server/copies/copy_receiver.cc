#include "ps_server/copies/copy_receiver.h"

#include <string>
#include <utility>

#include "common/base/status.h"

namespace cohort {

void CopyReceiver::OnFrame(Frame frame) {
  RequestMessage* const message = messages_.Next();
  header_.Clear();
  absl::Status status = message->decoder.Decode(std::move(frame), &header_);
  if (status.ok()) status = ReadEntry(*message);
  if (status.ok()) status = entry_.push() ? ReadPush(message) : ReadState(*message);
  if (status.ok()) return;
  core_->metrics()->bad_requests->Increment();
  stream_->Close(std::move(status));
}

absl::Status CopyReceiver::ReadEntry(const RequestMessage& message) {
  const bool continues = std::exchange(more_, header_.more());
  if (message.decoder.has_shared()) {
    if (continues) return InvalidArgument("an entry of a log begins within another one");
    const std::span<const uint8_t> bytes = message.decoder.shared();
    if (entry_.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      return absl::OkStatus();
    }
    return InvalidArgument("{} bytes are no CopyEntry", bytes.size());
  }
  if (continues) return absl::OkStatus();
  if (message.decoder.payload_count() != 1) return InvalidArgument("a payload without its entry");
  const PayloadView view = message.decoder.payload(0);
  std::string bytes(view.size(), '\0');
  view.CopyTo(bytes.data());
  if (entry_.ParseFromString(bytes) && !entry_.push()) return absl::OkStatus();
  return InvalidArgument("{} bytes are no CopyEntry without a payload", bytes.size());
}

absl::Status CopyReceiver::ReadState(const RequestMessage& message) {
  std::vector<BufferRef> fields;
  std::vector<std::span<const uint8_t>> payload;
  for (size_t i = 0; message.decoder.has_shared() && i < message.decoder.payload_count(); ++i) {
    const PayloadView view = message.decoder.payload(i);
    fields.push_back(core_->pool()->Allocate(view.size()));
    view.CopyTo(fields.back()->data());
    payload.emplace_back(fields.back()->data(), view.size());
  }
  stream_->Send(SerializeToFrame(core_->OnCopyEntry(entry_, {.state = payload})));
  messages_.Clear();
  return absl::OkStatus();
}

absl::Status CopyReceiver::ReadPush(RequestMessage* message) {
  COHORT_RETURN_IF_ERROR(message->ReadPayload(header_, nullptr, nullptr, nullptr, core_->pool()));
  COHORT_RETURN_IF_ERROR(assembler_.Add(header_, message->payload, message->fields.all()));
  if (header_.more()) {
    messages_.KeepNewest();
    return absl::OkStatus();
  }
  stream_->Send(SerializeToFrame(core_->OnCopyEntry(entry_, {.push = &assembler_.Finish()})));
  assembler_.Clear();
  messages_.Clear();
  return absl::OkStatus();
}

}  // namespace cohort
