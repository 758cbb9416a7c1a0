#ifndef COHORT_CHIEF_JOB_REPLICA_WATCH_H_
#define COHORT_CHIEF_JOB_REPLICA_WATCH_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/cluster/cluster_spec.h"
#include "common/rpc/stream/completion_loop.h"

namespace cohort {

class Security;

// Asks replicas whether they are there and will stay, each second, on a thread of its own. It opens
// the control stream of a worker and sends probes, which adopt nothing: a replica that works for a
// chief is not disturbed. A replica serves both of its parts when it answers. The first replica is
// asked only by RollCall: its task runs the chief. Thread-safe.
class ReplicaWatch {
 public:
  struct Options {
    std::string job;
    uint64_t chief_incarnation = 0;  // a replica that hears another chief is not free
    std::shared_ptr<const Security> security;
  };
  // The incarnations of replicas that answer and hear no other chief, by number.
  using Answers = std::map<int, uint64_t>;

  // `replicas`: all of the job, by their numbers in TF_CONFIG. Errors: those of StreamClient.
  static absl::StatusOr<std::unique_ptr<ReplicaWatch>> Start(const ClusterSpec& replicas,
                                                             const Options& options);
  ~ReplicaWatch();

  // Asks soon, and not only when the second is over.
  void Ask();
  // What they have answered last.
  Answers answers() const;
  // Those that have said that they will end.
  std::set<int> leaving() const;
  // Asks these replicas once more. Returns when all have answered or cannot be reached, at the
  // latest after `limit`.
  Answers RollCall(const std::set<int>& replicas, Duration limit);

 private:
  class Probe;

  ReplicaWatch() = default;
  // Asks each replica that is wanted now.
  void Tick();
  void TickAgain();
  // A question has no answer yet, although the next one is due.
  void Forget(int replica);
  uint64_t NextQuestion();
  // This question has an answer, or the replica cannot be reached (kClosed). An answer to an older
  // question than those of the last RollCall does not count.
  void Note(int replica, uint64_t question, std::optional<uint64_t> process, bool leaving);

  mutable Mutex mu_;
  CondVar noted_;
  std::set<int> called_ ABSL_GUARDED_BY(mu_);  // by RollCall
  std::set<int> silent_ ABSL_GUARDED_BY(mu_);  // those of called_ without an answer to it
  Answers answers_ ABSL_GUARDED_BY(mu_);
  std::set<int> leaving_ ABSL_GUARDED_BY(mu_);
  uint64_t asked_ ABSL_GUARDED_BY(mu_) = 0;  // questions
  uint64_t counts_from_ ABSL_GUARDED_BY(mu_) = 0;

  // The destructor first ends the thread of the loop, on which the probes run.
  std::map<int, std::unique_ptr<Probe>> probes_;  // constant after Start
  CompletionLoop loop_;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_JOB_REPLICA_WATCH_H_
