#ifndef COHORT_PS_SERVER_COPIES_COPY_RECEIVER_H_
#define COHORT_PS_SERVER_COPIES_COPY_RECEIVER_H_

#include <memory>

#include "common/rpc/stream/stream.h"
#include "proto/parameter_server.pb.h"
#include "ps_server/ps_core.h"
#include "ps_server/request_assembler.h"
#include "ps_server/request_message.h"

namespace cohort {

// Reads the log of a primary, whose tablet has its copy here, and replays it as it comes:
//
//   frames PushPullRequest ─► CopyEntry, and the push or the piece of a state ─► PsCore ─► CopyAck
//
// The entry is field 3 of its first message, or, without a payload of its own, the only payload. A
// primary that writes for version 2.6 sends the entry as a frame of its own, before its payload.
// Calls come on the thread that polls the stream, so an entry is done before the next one is read.
class CopyReceiver : public StreamHandler {
 public:
  // All but `stream` outlive this.
  CopyReceiver(PsCore* core, CodecCounters* counters, std::shared_ptr<Stream> stream);

  void OnFrame(Frame frame) override;
  void OnClosed(const absl::Status&) override {}

 private:
  absl::Status ReadApart(const Frame& frame);
  absl::Status ReadMessage(Frame frame);
  absl::Status ReadEntry(const RequestMessage& message);
  absl::Status ReadPush(RequestMessage* message);
  absl::Status ReadState(const RequestMessage& message);

  PsCore* const core_;
  const std::shared_ptr<Stream> stream_;
  const uint64_t number_ = core_->OnCopyStream();
  const bool apart_;  // entries have frames of their own
  v1::CopyEntry entry_;
  bool more_ = false;  // messages of entry_ follow
  v1::PushPullHeader header_;
  RequestMessages messages_;
  RequestAssembler assembler_;
};

}  // namespace cohort

#endif  // COHORT_PS_SERVER_COPIES_COPY_RECEIVER_H_
