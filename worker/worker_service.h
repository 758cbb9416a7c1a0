#ifndef COHORT_WORKER_WORKER_SERVICE_H_
#define COHORT_WORKER_WORKER_SERVICE_H_

#include <map>
#include <memory>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/rpc/stream_server.h"
#include "worker/worker_core.h"

namespace cohort {

// Translates between streams of frames and WorkerCore; nothing is decided here.
//
//   /cohort.v1.Worker/Control    one protobuf message per frame
class WorkerService {
 public:
  struct Options {
    // A chief's stream that breaks after a longer silence may be cut off and alive; before, its
    // sockets were closed. Chiefs ping every second.
    Duration silence = std::chrono::seconds(4);
  };

  explicit WorkerService(const Options& options) : options_(options) {}

  // `core` and `clock` outlive the streams.
  StreamServer::Methods Methods(WorkerCore* core, const Clock* clock);

  // To a chief, where it is still connected. Thread-safe.
  void Send(Adoption::Connection connection, const v1::WorkerToChief& message);

 private:
  class ControlHandler;

  Adoption::Connection Add(std::shared_ptr<Stream> stream);
  void Remove(Adoption::Connection connection);

  const Options options_;
  Mutex mu_;
  Adoption::Connection next_ ABSL_GUARDED_BY(mu_) = 1;
  std::map<Adoption::Connection, std::shared_ptr<Stream>> chiefs_ ABSL_GUARDED_BY(mu_);
};

}  // namespace cohort

#endif  // COHORT_WORKER_WORKER_SERVICE_H_
