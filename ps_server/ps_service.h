#ifndef COHORT_PS_SERVER_PS_SERVICE_H_
#define COHORT_PS_SERVER_PS_SERVICE_H_

#include <cstddef>
#include <cstdint>

#include "common/placement/message_size.h"
#include "common/rpc/push_pull/push_pull_codec.h"
#include "common/rpc/stream/chief_streams.h"
#include "common/rpc/stream/stream_server.h"
#include "ps_server/held_bytes.h"
#include "ps_server/ps_core.h"

namespace cohort {

// Translates between streams of frames and PsCore; nothing is decided here.
//
//   /cohort.v1.ParameterServer/Control    one protobuf message per frame
//   /cohort.v1.ParameterServer/PushPull   header and payload slices, executed on the thread that
//                                         polled the frame; the answer is sent from there
class PsService : public ChiefSink {
 public:
  struct Options {
    // Limits the payload of one request over all of its messages. The chief refuses programs that
    // need more.
    size_t max_request_bytes = kMaxPushBytes;
    // Of all requests together of which the end has not come.
    size_t max_held_bytes = size_t{8} << 30;
    // How long one of them may wait for its next message while others lack memory.
    Duration patience = std::chrono::seconds(10);
    // Of this server: streams of clients that mean another one are refused.
    uint64_t incarnation = 0;
  };

  explicit PsService(const Options& options)
      : options_(options), held_(options.max_held_bytes, options.patience) {}

  // `core` and `clock` outlive the streams.
  StreamServer::Methods Methods(PsCore* core, const Clock* clock);

  void Send(Adoption::Connection connection, const v1::PsToChief& message) override;

  const CodecCounters& codec_counters() const { return codec_counters_; }
  const HeldBytes& held() const { return held_; }

 private:
  const Options options_;
  CodecCounters codec_counters_;
  HeldBytes held_;
  ChiefStreams<v1::ChiefToPs, v1::PsToChief> chiefs_;
};

}  // namespace cohort

#endif  // COHORT_PS_SERVER_PS_SERVICE_H_
