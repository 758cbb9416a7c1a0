#ifndef COHORT_PS_SERVER_DATA_STREAM_H_
#define COHORT_PS_SERVER_DATA_STREAM_H_

#include <memory>

#include "common/rpc/stream/stream.h"
#include "ps_server/push_pull_request.h"
#include "ps_server/shared_payload_server.h"

namespace cohort {

// The server's end of one client's PushPull stream: puts frames together to requests and hands each
// whole request to RequestContext::execute, on the thread that polled its last frame. All calls
// come on that thread. The stream reuses a request that is answered there for the next frame. A
// request that is kept belongs to the code that keeps it, and the stream continues with another
// one.
//
//   frames ─► DataStream ─► PushPullRequest: RequestMessage (payloads), RequestAssembler (view)
//                                │ execute
//                                ▼
//                           DataPath ─► answer ─► Responder ─► frames
class DataStream : public StreamHandler {
 public:
  DataStream(std::shared_ptr<const RequestContext> context, std::shared_ptr<Stream> stream);

  void OnFrame(Frame frame) override;
  void OnClosed(const absl::Status&) override;

 private:
  void Refuse(const absl::Status& status);

  const std::shared_ptr<const RequestContext> context_;
  const std::shared_ptr<Stream> stream_;
  const bool on_unix_socket_;  // only there can both ends map the same memory
  SharedPayloadServer shared_;
  std::unique_ptr<PushPullRequest> request_;  // for the next frame; null: none is made yet
};

}  // namespace cohort

#endif  // COHORT_PS_SERVER_DATA_STREAM_H_
