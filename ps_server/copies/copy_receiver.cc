#include "ps_server/copies/copy_receiver.h"

#include <string>
#include <utility>

#include "common/base/status.h"
#include "common/cluster/protocol_version.h"

namespace cohort {
namespace {

bool ReadsApart(const Stream& stream) {
  const auto version = ProtocolVersion::Parse(stream.metadata(kProtocolVersionKey));
  return version.has_value() && *version < kCopyRequestsProtocol;
}

}  // namespace

CopyReceiver::CopyReceiver(PsCore* core, CodecCounters* counters, std::shared_ptr<Stream> stream)
    : core_(core), stream_(std::move(stream)), apart_(ReadsApart(*stream_)), messages_(counters) {}

void CopyReceiver::OnFrame(Frame frame) {
  absl::Status status = apart_ && !more_ ? ReadApart(frame) : ReadMessage(std::move(frame));
  if (status.ok()) return;
  core_->metrics()->bad_requests->Increment();
  stream_->Close(std::move(status));
}

// Until version 2.6 is no longer supported: messages with the payload of the entry follow.
absl::Status CopyReceiver::ReadApart(const Frame& frame) {
  COHORT_RETURN_IF_ERROR(ParseFromFrame(frame, &entry_));
  more_ = entry_.push() || (entry_.has_state() && !entry_.state().has_cut());
  if (!more_) stream_->Send(SerializeToFrame(core_->OnCopyEntry(entry_, {.stream = number_})));
  return absl::OkStatus();
}

absl::Status CopyReceiver::ReadMessage(Frame frame) {
  RequestMessage* const message = messages_.Next();
  header_.Clear();
  COHORT_RETURN_IF_ERROR(message->decoder.Decode(std::move(frame), &header_));
  COHORT_RETURN_IF_ERROR(ReadEntry(*message));
  return entry_.push() ? ReadPush(message) : ReadState(*message);
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
  const bool has_payload = message.decoder.has_shared() || apart_;
  for (size_t i = 0; has_payload && i < message.decoder.payload_count(); ++i) {
    const PayloadView view = message.decoder.payload(i);
    fields.push_back(core_->pool()->Allocate(view.size()));
    view.CopyTo(fields.back()->data());
    payload.emplace_back(fields.back()->data(), view.size());
  }
  stream_->Send(
      SerializeToFrame(core_->OnCopyEntry(entry_, {.state = payload, .stream = number_})));
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
  stream_->Send(SerializeToFrame(
      core_->OnCopyEntry(entry_, {.push = &assembler_.Finish(), .stream = number_})));
  assembler_.Clear();
  messages_.Clear();
  return absl::OkStatus();
}

}  // namespace cohort
