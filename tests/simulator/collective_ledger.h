#ifndef COHORT_TESTS_SIMULATOR_COLLECTIVE_LEDGER_H_
#define COHORT_TESTS_SIMULATOR_COLLECTIVE_LEDGER_H_

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "common/collective/reduce_scatter.h"
#include "tests/simulator/collective_plan.h"
#include "tests/simulator/network.h"
#include "tests/simulator/seeds.h"

namespace cohort::simulator {

// Counts of what happened in one run of a collective group, or in many.
struct CollectiveStatistics {
  uint64_t runs = 0;
  uint64_t events = 0;
  // Faults.
  uint64_t killed = 0;
  uint64_t frozen = 0;
  uint64_t wedged = 0;
  NetworkCounts network;
  // How the groups reacted.
  uint64_t epochs = 0;
  uint64_t groups = 0;  // that a rank has started
  uint64_t failed_starts = 0;
  uint64_t old_epochs = 0;       // a rank tries an epoch after a newer one was announced
  uint64_t refused_streams = 0;  // they name another epoch or incarnation
  uint64_t operations = 0;       // that ended well
  uint64_t late = 0;             // operations that ended with DeadlineExceeded
  uint64_t lost = 0;             // with Unavailable
  uint64_t given_up = 0;         // that were in flight when their rank left
  uint64_t early_chunks = 0;
  uint64_t dropped_frames = 0;
  uint64_t lent_frames = 0;  // whose memory was compared at the end of the transport's reading

  Counts AllCounts();
  void Add(CollectiveStatistics other) { AddCounts(other.AllCounts(), AllCounts()); }
  std::string Text() { return CountsText(AllCounts()); }
};

// Where and when a status was seen.
struct FailureSeen {
  int by = 0;
  uint64_t epoch = 0;
  const OperationName* name = nullptr;  // null: at the start of the group
  int64_t at_us = 0;
};

// The evidence by which a run is judged: what really happened to each rank, and the violations.
class CollectiveLedger {
 public:
  explicit CollectiveLedger(const CollectivePlan& plan)
      : plan_(plan), ranks_(static_cast<size_t>(plan.ranks)) {}

  template <typename... Args>
  void Violate(fmt::format_string<Args...> format, Args&&... args) {
    violations.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  // The truth. Times in microseconds.
  void Started(int rank, uint64_t incarnation) { of(rank).incarnation = incarnation; }
  // The rank does nothing in this span: it is stopped.
  void Away(int rank, int64_t from, int64_t to) { of(rank).away.emplace_back(from, to); }
  // The rank calculates in this span, for long. It is not missing, but notices later what happens.
  void Busy(int rank, int64_t from, int64_t to) { of(rank).busy.emplace_back(from, to); }
  // The rank is dead, or a stream of it was cut or broken.
  void Disturbed(int rank, int64_t from, int64_t to) { of(rank).disturbed.emplace_back(from, to); }
  void Enters(int rank, uint64_t epoch, int64_t at) { of(rank).entered[epoch] = at; }
  void Leaves(int rank, uint64_t epoch, int64_t at) { of(rank).left.try_emplace(epoch, at); }
  // Time that the rank was away in this span.
  int64_t AwayIn(int rank, int64_t from, int64_t to) const;

  // The same for the spans in which ranks were busy, of all ranks together.
  int64_t BusyIn(int64_t from, int64_t to) const;

  // A group is complete at one rank: all others must have entered its epoch.
  void CheckComplete(int rank, uint64_t epoch);
  // Judges an error of a rank: the code, and whether the named rank is really missing.
  void CheckFailure(const FailureSeen& seen, const absl::Status& status);

  std::vector<std::string> violations;
  CollectiveStatistics statistics;

 private:
  using Spans = std::vector<std::pair<int64_t, int64_t>>;
  struct Truth {
    uint64_t incarnation = 0;
    Spans away;
    Spans busy;
    Spans disturbed;
    std::map<uint64_t, int64_t> entered;  // epochs
    std::map<uint64_t, int64_t> left;
  };

  static int64_t TimeIn(const Spans& spans, int64_t from, int64_t to);
  Truth& of(int rank) { return ranks_[static_cast<size_t>(rank)]; }
  const Truth& of(int rank) const { return ranks_[static_cast<size_t>(rank)]; }
  bool IsMissing(int rank, uint64_t incarnation, const FailureSeen& seen) const;

  const CollectivePlan& plan_;
  std::vector<Truth> ranks_;
};

}  // namespace cohort::simulator

#endif  // COHORT_TESTS_SIMULATOR_COLLECTIVE_LEDGER_H_
