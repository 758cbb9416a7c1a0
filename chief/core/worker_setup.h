#ifndef COHORT_CHIEF_CORE_WORKER_SETUP_H_
#define COHORT_CHIEF_CORE_WORKER_SETUP_H_

#include <absl/status/status.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "chief/core/core_context.h"
#include "chief/core/outbox.h"
#include "chief/core/settlement.h"

namespace cohort {

// Keeps the programs and resources that every worker needs, and which of them each worker has.
//
//   away ──(1) OnHello──► adopted ──(2) Begin──► being set up ──(3) Finish──► ready
//     ▲                      └─(1') OnResults                                   │
//     └──────────────────────────(4) OnLost, from anywhere──────────────────────┘
//
// (1) The hello is kept until the chief is ready. (1') Results that arrive in the meantime become a
// part of the hello. (2) The caller takes the hello and handles its results and closures. (3) The
// chief sends the worker the programs and resources that it lacks. (4) The worker's stream has
// ended.
class WorkerSetup {
 public:
  WorkerSetup(const CoreContext* context, Outbox* outbox, Settlement* settlement);

  // Return the number of the program or resource. Equal names give the same number.
  int AddProgram(std::string fingerprint, v1::Program program);
  int AddResource(v1::CreateResource resource);
  // Errors: InvalidArgument if the closure names something that was not added.
  absl::Status CheckSpec(const ClosureSpec& spec) const;
  const std::string& program_name(int program) const { return NameOf(programs_, program); }
  const std::string& resource_name(int resource) const { return NameOf(resources_, resource); }

  // Edges (1) to (4).
  void OnHello(int worker, v1::WorkerHello hello);
  void OnResults(int worker, v1::Results* results);
  v1::WorkerHello Begin(int worker);
  void Finish(int worker);
  void OnLost(int worker) {
    state(worker).ready = false;
    ++changes_;
  }
  bool ready(int worker) const { return workers_[static_cast<size_t>(worker)].ready; }
  // True while a ready worker opens data, which may take minutes: it gets no closures.
  bool opens_data(int worker) const {
    return !workers_[static_cast<size_t>(worker)].opening.empty();
  }

  // Rises when `ready` or `opens_data` of a worker may have changed.
  uint64_t changes() const { return changes_; }

  // Returns true if `request` asked `worker` to register something: its failure is the job's error.
  bool TakeRequest(int worker, uint64_t request);
  // Notes how far the worker has read. Positions of another timeline do not count.
  void MoveReaders(int worker,
                   const google::protobuf::RepeatedPtrField<v1::ReaderPosition>& readers);
  // After a rollback: makes all workers recreate the readers of independent datasets, at the
  // positions of the cut.
  void RecreateReaders();

 private:
  struct Named {
    std::string name;
    bool independent = false;  // a resource that each worker reads on its own
    // The message without what differs between workers, serialized: a vocabulary may have
    // gigabytes, and all workers share this copy.
    std::shared_ptr<const std::string> message;
  };
  struct Worker {
    std::set<std::string> programs;
    std::set<std::string> resources;
    bool ready = false;
    // The resources that it has not made yet, each with the newest request for it. A worker answers
    // no request that a newer one for the same resource has replaced.
    std::map<std::string, uint64_t> opening;
    v1::WorkerHello hello;  // the hello of its adoption, until Begin
  };

  static const std::string& NameOf(const std::vector<Named>& all, int index) {
    return all[static_cast<size_t>(index)].name;
  }
  Worker& state(int worker) { return workers_[static_cast<size_t>(worker)]; }
  int Add(std::vector<Named>* all, Named named, const v1::ChiefToWorker& message);
  // Registers the programs and resources that a ready worker lacks.
  void SendMissing(int worker);

  const CoreContext* const context_;
  Outbox* const outbox_;
  Settlement* const settlement_;
  std::vector<Named> programs_;
  std::vector<Named> resources_;
  std::set<uint64_t> requests_;  // registrations without an answer
  std::vector<Worker> workers_;
  uint64_t changes_ = 0;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_WORKER_SETUP_H_
