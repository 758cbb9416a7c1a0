#ifndef COHORT_WORKER_SEGMENT_SERVICE_H_
#define COHORT_WORKER_SEGMENT_SERVICE_H_

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/log.h"
#include "common/base/metrics.h"
#include "common/base/mutex.h"
#include "common/exec/segment_runner.h"
#include "common/rpc/stream/stream_server.h"

namespace cohort {

namespace v1 {
class SegmentAnswer;
class SegmentRequest;
}  // namespace v1

// Runs layers of other workers on the devices of this one:
//
//   /cohort.v1.Worker/Segments    one SegmentRequest or SegmentAnswer per frame
//
// A thread of its own runs them, one after another, whether or not this worker has work itself. So
// workers whose layers run on each other never wait in a circle. It keeps the programs that ran
// last, compiled, and nothing else.
class SegmentService {
 public:
  struct Options {
    int worker = 0;  // its index
    uint64_t incarnation = 0;
    size_t programs = 64;  // that are kept
  };
  // All pointers outlive this object, which outlives the streams.
  SegmentService(const Options& options, SegmentDevices* devices, MetricsRegistry* registry,
                 Logger* log);
  // Waits for the segment that runs.
  ~SegmentService();

  StreamServer::Methods Methods();

 private:
  class Connection;
  struct Job {
    std::shared_ptr<Stream> stream;
    std::shared_ptr<v1::SegmentRequest> request;
  };
  struct Compiled {
    std::string key;  // fingerprint and device
    Program program;  // its types
    std::unique_ptr<SegmentRunner> runner;
  };

  void Add(Job job);
  // Forgets what the stream has asked for and no thread has begun.
  void Drop(const Stream* stream);
  void ThreadMain();
  absl::Status Run(const v1::SegmentRequest& request, v1::SegmentAnswer* answer);
  // Null: the request must bring the program.
  absl::StatusOr<Compiled*> Find(const v1::SegmentRequest& request);

  const Options options_;
  SegmentDevices* const devices_;
  Logger* const log_;
  Counter* const runs_;
  std::list<Compiled> programs_;  // the one that ran last is first; used by the thread
  Mutex mu_;
  CondVar changed_;
  std::deque<Job> jobs_ ABSL_GUARDED_BY(mu_);
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace cohort

#endif  // COHORT_WORKER_SEGMENT_SERVICE_H_
