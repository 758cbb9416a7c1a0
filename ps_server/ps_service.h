#ifndef COHORT_PS_SERVER_PS_SERVICE_H_
#define COHORT_PS_SERVER_PS_SERVICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "common/rpc/push_pull/push_pull_codec.h"
#include "common/rpc/stream/chief_streams.h"
#include "common/rpc/stream/stream_server.h"
#include "ps_server/held_bytes.h"
#include "ps_server/parked_requests.h"
#include "ps_server/pins.h"
#include "ps_server/ps_core.h"
#include "ps_server/push_pull_request.h"

namespace cohort {

inline constexpr char kControlMethod[] = "/cohort.v1.ParameterServer/Control";
inline constexpr char kPushPullMethod[] = "/cohort.v1.ParameterServer/PushPull";

// The context of the data streams of `core`. They execute each request on the thread that polled
// its last frame, and answer it there, unless `parked` keeps it. All arguments outlive the streams
// and their requests.
RequestContext MakeRequestContext(PsCore* core, CodecCounters* counters, HeldBytes* held,
                                  ParkedRequests* parked, Pins* pins);

// Translates between streams of frames and PsCore; nothing is decided here.
//
//   kControlMethod    one protobuf message per frame
//   kPushPullMethod   header and payload slices (DataStream)
//   kCopyMethod       entries of logs (CopyReceiver)
class PsService : public ChiefSink {
 public:
  struct Options {
    // See HeldBytes.
    size_t max_held_bytes = size_t{8} << 30;
    // See Pins.
    size_t max_superseded_bytes = size_t{4} << 30;
    Duration patience = std::chrono::seconds(10);
    // This server's incarnation. The service refuses streams of clients that name another one.
    uint64_t incarnation = 0;
  };

  explicit PsService(const Options& options)
      : options_(options),
        held_(options.max_held_bytes, options.patience),
        pins_(options.max_superseded_bytes) {}

  // `core` and `clock` outlive the streams.
  StreamServer::Methods Methods(PsCore* core, const Clock* clock);

  void Send(Adoption::Connection connection, const v1::PsToChief& message) override;
  // See ParkedRequests::Release. Call it after Methods.
  void ReleaseParked() { parked_->Release(); }
  // See ParkedRequests::SendLifeSigns. Call it after Methods.
  void SendLifeSigns() { parked_->SendLifeSigns(); }
  bool has_parked() const { return parked_ != nullptr && !parked_->empty(); }
  // See ParkedRequests::answers_wait. Call it after Methods.
  bool answers_wait() const { return parked_->answers_wait(); }

  const CodecCounters& codec_counters() const { return codec_counters_; }
  const HeldBytes& held() const { return held_; }
  void SetMostHeld(size_t bytes, size_t alone) { held_.SetMost(bytes, alone); }
  Pins* pins() { return &pins_; }

 private:
  // The handler of a stream, unless the client speaks another version or means another server.
  std::unique_ptr<StreamHandler> Admit(
      PsCore* core, const std::shared_ptr<Stream>& stream,
      absl::FunctionRef<std::unique_ptr<StreamHandler>()> make) const;

  const Options options_;
  CodecCounters codec_counters_;
  HeldBytes held_;
  Pins pins_;
  ChiefStreams<v1::ChiefToPs, v1::PsToChief> chiefs_;
  std::unique_ptr<ParkedRequests> parked_;  // made by Methods
};

}  // namespace cohort

#endif  // COHORT_PS_SERVER_PS_SERVICE_H_
