#ifndef COHORT_COMMON_CLUSTER_WAIT_LIST_H_
#define COHORT_COMMON_CLUSTER_WAIT_LIST_H_

#include <absl/status/status.h>

#include <map>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/cluster/cluster_spec.h"

namespace cohort {

// A wait for tasks that says for whom:
//
//   waiting for worker:2 (host3:2222), 12 s
//
// Pure: driven by Tick on an injected clock. One thread at a time.
class WaitList {
 public:
  struct Options {
    Duration timeout = std::chrono::seconds(300);     // zero: no deadline
    Duration report_every = std::chrono::seconds(3);  // the first report comes after as long
  };

  WaitList(const Clock* clock, Options options);

  // Starts to wait for a task, or keeps on. `address` may be "".
  void Expect(const std::string& task, const std::string& address);
  void Expect(Task task, const std::optional<Address>& address);
  // What is known about why it is not there yet ("connection refused"), shown in brackets.
  void Note(const std::string& task, const std::string& reason);
  void Arrived(const std::string& task);
  void Arrived(Task task) { Arrived(task.ToString()); }

  bool done() const { return missing_.empty(); }
  // "worker:2 (host3:2222), ps:0 (host1:2222)".
  std::string Missing() const;

  // A line to show now, at most one per `report_every`.
  std::optional<std::string> Tick();
  // OK, or DeadlineExceeded that names the missing tasks, once the oldest wait has gone on for
  // `timeout`.
  absl::Status CheckDeadline() const;

 private:
  struct Entry {
    std::string address;
    std::string reason;
    TimePoint since;
  };
  TimePoint Oldest() const;

  const Clock* const clock_;
  const Options options_;
  std::map<std::string, Entry> missing_;
  TimePoint next_report_ = TimePoint::max();
};

}  // namespace cohort

#endif  // COHORT_COMMON_CLUSTER_WAIT_LIST_H_
