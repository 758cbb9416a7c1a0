#ifndef COHORT_WORKER_PEER_DEVICES_H_
#define COHORT_WORKER_PEER_DEVICES_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/cluster/security.h"
#include "common/exec/segment_runner.h"
#include "common/rpc/stream/completion_loop.h"

namespace cohort {

// The devices of all workers of the cluster, as the step thread of one of them sees them: its own,
// and "worker:1/cuda:0" of another one. A segment that belongs there is sent to the SegmentService
// of that worker, with its inputs, and the step thread waits for the outputs.
//
// If the other worker is lost, the segment is sent again when it is back: it is a function of its
// inputs. After `timeout` the step fails as retryable, so the chief gives its closure out again.
class PeerDevices : public SegmentDevices {
 public:
  struct Options {
    int worker = 0;                        // the index of this one
    std::map<int, std::string> addresses;  // all workers, by index
    std::shared_ptr<const Security> security = Security::LoopbackOnly();
    Duration timeout = std::chrono::seconds(60);  // how long another worker may be unreachable
    Logger* log = nullptr;                        // outlives this object
  };
  struct Counters {
    uint64_t segments = 0;  // that ran on other workers
    uint64_t resends = 0;
    uint64_t bytes_sent = 0, bytes_received = 0;  // values of segments
  };
  // `local`: the devices of this worker; outlives this object.
  PeerDevices(const Options& options, SegmentDevices* local);
  ~PeerDevices() override;

  std::string Resolve(const std::string& device) const override;
  // Errors of the runner: those of the other worker, which they name; Unavailable with FailureInfo
  // of that worker (retryable) after the timeout; FailedPrecondition if it cannot run segments;
  // Cancelled after Interrupt. It does not outlive this object.
  absl::StatusOr<std::unique_ptr<SegmentRunner>> MakeRunner(const std::string& device,
                                                            Segment segment) override;

  // Makes the segment that waits return Cancelled; if none does, the next one. Thread-safe.
  void Interrupt();
  Counters counters() const;  // thread-safe

 private:
  class Link;
  class PeerSegment;

  const Options options_;
  SegmentDevices* const local_;
  std::atomic<bool> interrupted_{false};
  std::atomic<uint64_t> segments_{0}, resends_{0}, bytes_sent_{0}, bytes_received_{0};
  CompletionLoop loop_;  // polled by the step thread while it waits
  std::map<int, std::unique_ptr<Link>> links_;
};

}  // namespace cohort

#endif  // COHORT_WORKER_PEER_DEVICES_H_
