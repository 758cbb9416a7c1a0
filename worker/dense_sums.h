#ifndef COHORT_WORKER_DENSE_SUMS_H_
#define COHORT_WORKER_DENSE_SUMS_H_

#include <absl/status/statusor.h>

#include <span>

#include "common/exchange/variable_access.h"
#include "common/exec/push_observer.h"
#include "common/graph/program.h"

namespace cohort {

namespace v1 {
class Closure;
}  // namespace v1

// Sums the dense gradients of synchronous steps among the workers, instead of pushing those of each
// closure to the servers (v1.Closure.ring_places). Used by the step thread.
//
//   Begin ─► OnPushReady for each push, in any order ─► Finish        for each closure of the step
class DenseSums : public PushObserver {
 public:
  // Begins a closure with `ring_places` above 0. `pushes`: where its gradients will be; they and
  // the program stay until Finish. Errors: Aborted if this worker has had the closure in this try;
  // InvalidArgument if the program does not fit the routes.
  virtual absl::Status Begin(const v1::Closure& closure, const Program& program,
                             std::span<const PushItem> pushes) = 0;
  // All values are final. Returns the sums of the shards that this worker owns if this is its last
  // closure of the step, else nothing. They stay valid until the next Begin. An error names the
  // worker that does not take part.
  virtual absl::StatusOr<std::span<const ShardSum>> Finish() = 0;
};

}  // namespace cohort

#endif  // COHORT_WORKER_DENSE_SUMS_H_
