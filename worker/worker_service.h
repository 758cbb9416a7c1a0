#ifndef COHORT_WORKER_WORKER_SERVICE_H_
#define COHORT_WORKER_WORKER_SERVICE_H_

#include "common/base/clock.h"
#include "common/rpc/stream/chief_streams.h"
#include "common/rpc/stream/stream_server.h"
#include "worker/worker_core.h"

namespace cohort {

// Translates between streams of frames and WorkerCore. It makes no decisions.
//
//   /cohort.v1.Worker/Control    one protobuf message per frame
class WorkerService {
 public:
  // `core` and `clock` outlive the streams.
  StreamServer::Methods Methods(WorkerCore* core, const Clock* clock);

  // Sends to a chief if it is still connected. Thread-safe.
  void Send(Adoption::Connection connection, const v1::WorkerToChief& message);

 private:
  ChiefStreams<v1::ChiefToWorker, v1::WorkerToChief> chiefs_;
};

}  // namespace cohort

#endif  // COHORT_WORKER_WORKER_SERVICE_H_
