#ifndef COHORT_PS_SERVER_PUSH_PULL_REQUEST_H_
#define COHORT_PS_SERVER_PUSH_PULL_REQUEST_H_

#include <absl/status/status.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "common/rpc/stream/stream.h"
#include "common/tablet/push_pull_views.h"
#include "ps_server/data_path.h"
#include "ps_server/held_bytes.h"
#include "ps_server/pins.h"
#include "ps_server/request_assembler.h"
#include "ps_server/request_headers.h"
#include "ps_server/request_message.h"
#include "ps_server/responder.h"
#include "ps_server/shared_payload_server.h"
#include "ps_server/unsent_answers.h"
#include "ps_server/waiting_request.h"

namespace cohort {

class PushPullRequest;

// What all requests of one server share. All pointers outlive the requests.
struct RequestContext {
  DataPath* data_path = nullptr;
  PsMetrics* metrics = nullptr;
  BufferPool* pool = nullptr;
  CodecCounters* counters = nullptr;
  HeldBytes* held = nullptr;
  Pins* pins = nullptr;                    // may be null: nothing is lent
  std::shared_ptr<UnsentAnswers> answers;  // where values count until they are sent
  // Executes a whole request. Either answers it and returns it, so that the stream can use its
  // memory again, or keeps it and returns null: then it answers or destroys the request later, on
  // any thread.
  std::function<std::unique_ptr<PushPullRequest>(std::unique_ptr<PushPullRequest>)> execute;
};

// One request of a PushPull stream: it owns its memory and its answer. Its stream fills it message
// by message; whoever holds the whole request answers it once. Not thread-safe: it belongs to its
// holder, who may hand it to another thread.
//
//            Decode, Add              Finish                    Execute or AnswerError
//   empty ───────────────► receiving ────────► whole ─────────────────────► answered
//     ▲                                         │ ▲                            │
//     │                                    Park └─┘ counts its memory          │
//     └──────────────────────────────── Clear ─────────────────────────────────┘
//
// A request that is answered before its stream's next frame is cleared and used again: this costs
// no allocation. A request that is parked is destroyed when it has been answered, and its stream
// makes another one for the next frame. While a request is not answered, its client must not write
// the shared memory that the request names, so gradients are read from there at any time. If the
// stream ends first, the answer is dropped.
class PushPullRequest final : public WaitingRequest {
 public:
  PushPullRequest(std::shared_ptr<const RequestContext> context,
                  const std::shared_ptr<Stream>& stream);
  PushPullRequest(const PushPullRequest&) = delete;
  PushPullRequest& operator=(const PushPullRequest&) = delete;

  // ---- for the stream that receives the request

  // Takes the next message. Error: InvalidArgument if the frame is not a PushPullRequest.
  absl::Status Decode(Frame frame);
  // Adds that message to the request. `shared`: the memory that the client offers; null: it cannot
  // share any. Errors: InvalidArgument (RequestAssembler, PayloadFields, SharedPayloadServer),
  // ResourceExhausted (all unfinished requests together take too much memory), FailedPrecondition
  // (this one alone takes more than the server has).
  absl::Status Add(SharedPayloadServer* shared);
  // True if the newest message says that more messages of the request follow.
  bool more() const { return headers_.request().more(); }
  // True if the request has only one message.
  bool is_single() const { return messages_.count() == 1 && !more(); }
  // All messages have been added.
  void Finish();
  // Makes the request empty. Keeps the memory that usual requests need, if the server has enough.
  void Clear();

  // ---- for the holder of a whole request

  const RequestView& view() const override { return *view_; }
  std::weak_ptr<const void> stream() const override { return stream_; }

  absl::Status Park() override;
  CopyLog::Answer Push() override;
  void Execute() override;
  void SendLifeSign() override;
  void AnswerError(const absl::Status& status) override;

 private:
  absl::Status ReadSharedWord(SharedPayloadServer* shared);
  absl::Status KeepMessage();
  absl::Status TooLarge(size_t bytes) const;
  size_t Trim(size_t message_bytes, size_t entries);

  const std::shared_ptr<const RequestContext> context_;
  const std::weak_ptr<Stream> stream_;
  RequestHeaders headers_;
  RequestMessages messages_;
  RequestMessage* newest_ = nullptr;
  std::shared_ptr<SharedSegment> segment_;  // where payloads lie; null: in the frames
  std::shared_ptr<Pins::Client> client_;    // whose pins later requests end; null: nothing is lent
  std::shared_ptr<PeerSegments> peers_;  // the client's own segments that are mapped; may be null
  const v1::SharedPayload* word_ = nullptr;  // the newest message's; null: it has none
  RequestAssembler assembler_;
  const RequestView* view_ = nullptr;
  DataPathScratch scratch_;
  bool pushed_ = false;                // Push has executed the pushes
  CopyMarks marks_;                    // what they wait for
  std::vector<PayloadSlice> payload_;  // the answer's
  Responder responder_;
  HeldBytes::Share held_;
};

}  // namespace cohort

#endif  // COHORT_PS_SERVER_PUSH_PULL_REQUEST_H_
