#ifndef COHORT_CHIEF_CORE_JOINED_TASKS_H_
#define COHORT_CHIEF_CORE_JOINED_TASKS_H_

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "chief/core/core_types.h"
#include "chief/core/membership.h"
#include "chief/core/outbox.h"

namespace cohort {

// The tasks that come while the job runs: no TF_CONFIG of this chief names them. Each has a place:
// an index after those of the named tasks (CoreOptions::worker_places).
//
//   free ──(1) Join──► journaling ──(2) OnJournaled──► dialed ──(3) away, or refused──► free
//
// (1) An address that has a place keeps it. (2) From now on the task is one of its role: a chief
// that is restarted dials it, too. (3) A task that leaves says nothing: its place is free when the
// chief has not reached it for `join_grace_us`, and a server also counts as lost.
class JoinedTasks {
 public:
  // Sets the addresses of places in `options`, which its owner has nobody else change.
  JoinedTasks(CoreOptions* options, Outbox* outbox, Membership* membership)
      : options_(options), outbox_(outbox), membership_(membership) {}

  // Edge (1). Returns which task it is. Errors: AlreadyExists if a named task has the address;
  // ResourceExhausted if no place is free.
  absl::StatusOr<Task> Join(Role role, const std::string& address, int64_t now_us);
  // True if the chief dials the task, and another chief of this journal would.
  bool settled(Task task) const;
  // Edge (2).
  void OnJournaled(uint64_t record);
  // Edge (3). Returns the tasks that had the places.
  std::vector<Task> Tick(int64_t now_us);

 private:
  struct Waiting {
    Task task;
    uint64_t record = 0;
  };
  std::vector<std::string>& addresses(Role role) {
    return role == Role::kWorker ? options_->workers : options_->ps;
  }
  std::string& AddressOf(Task task) {
    return addresses(task.role)[static_cast<size_t>(task.index)];
  }
  // All tasks on places.
  std::vector<Task> All() const;
  uint64_t Journal();

  CoreOptions* const options_;
  Outbox* const outbox_;
  Membership* const membership_;
  std::vector<Waiting> waiting_;  // for edge (2)
};

// The joined tasks that a journal's records name.
v1::JoinedTasks JoinedIn(const std::vector<v1::JournalRecord>& records);

// Adds places to `options`: for the tasks of `joined`, and as many in all. A task whose index or
// address is that of a named one gets none: it has to join again.
void AddPlaces(const v1::JoinedTasks& joined, size_t workers, size_t servers, CoreOptions* options);

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_JOINED_TASKS_H_
