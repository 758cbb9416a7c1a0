#ifndef COHORT_COMMON_CLUSTER_WAIT_LIST_H_
#define COHORT_COMMON_CLUSTER_WAIT_LIST_H_

#include <map>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/cluster/cluster_spec.h"

namespace cohort {

// A wait for tasks. Its report names each missing task:
//
//   waiting for worker:2 (host3:2222), 12 s
//
// Pure: driven by Tick on an injected clock. Used by one thread at a time.
class WaitList {
 public:
  struct Options {
    Duration timeout = std::chrono::seconds(300);     // zero: no deadline
    Duration report_every = std::chrono::seconds(3);  // also the delay of the first report
  };

  WaitList(const Clock* clock, Options options);

  // Starts or continues to wait for a task. `address` may be "".
  void Expect(const std::string& task, const std::string& address);
  void Expect(Task task, const std::optional<Address>& address);
  // Records why the task has not arrived ("connection refused"). The report shows it in brackets.
  void Note(const std::string& task, const std::string& reason);
  void Arrived(const std::string& task);
  void Arrived(Task task) { Arrived(task.ToString()); }

  bool done() const { return missing_.empty(); }
  // "worker:2 (host3:2222), ps:0 (host1:2222)".
  std::string Missing() const;

  // Returns a line to show now, at most one per `report_every`.
  std::optional<std::string> Tick();
  // Once the oldest wait has lasted for `timeout`, returns how long it has lasted.
  std::optional<Duration> Expired() const;

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
