#ifndef COHORT_PS_SERVER_PS_SERVICE_H_
#define COHORT_PS_SERVER_PS_SERVICE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "common/base/mutex.h"
#include "common/rpc/push_pull_codec.h"
#include "common/rpc/stream_server.h"
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
    // A chief's stream that breaks after a longer silence than this may be cut off and alive;
    // before, its sockets were closed. Chiefs ping every second.
    Duration silence = std::chrono::seconds(4);
    // Bytes of one request over several messages at most.
    size_t max_request_bytes = size_t{2} << 30;
  };

  explicit PsService(const Options& options) : options_(options) {}

  // `core` and `clock` outlive the streams.
  StreamServer::Methods Methods(PsCore* core, const Clock* clock);

  void Send(Adoption::Connection connection, const v1::PsToChief& message) override;

  const CodecCounters& codec_counters() const { return codec_counters_; }

 private:
  class ControlHandler;
  class DataHandler;

  Adoption::Connection Add(std::shared_ptr<Stream> stream);
  void Remove(Adoption::Connection connection);

  const Options options_;
  CodecCounters codec_counters_;
  Mutex mu_;
  Adoption::Connection next_ ABSL_GUARDED_BY(mu_) = 1;
  std::map<Adoption::Connection, std::shared_ptr<Stream>> chiefs_ ABSL_GUARDED_BY(mu_);
};

}  // namespace cohort

#endif  // COHORT_PS_SERVER_PS_SERVICE_H_
