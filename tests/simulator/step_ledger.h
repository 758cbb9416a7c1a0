#ifndef COHORT_TESTS_SIMULATOR_STEP_LEDGER_H_
#define COHORT_TESTS_SIMULATOR_STEP_LEDGER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "proto/checkpoint.pb.h"
#include "proto/parameter_server.pb.h"
#include "tests/simulator/plan.h"

namespace cohort::simulator {

// A synchronous step that a server has closed.
struct StepEntry {
  std::vector<uint64_t> closures;  // its members, by index
  std::vector<uint64_t> places;    // the places of these closures
  uint64_t iteration = 0;
  uint64_t next_place = 0;
  bool operator==(const StepEntry&) const = default;
};

// The evidence about synchronous steps: what servers have closed in each timeline, and what the
// checkpoints contain. It checks that
//  - all servers close a step with the same members, one step after the other, and a step only when
//    every server has closed the one before;
//  - the position of a checkpoint, and the ids that its tablets have applied, fit to the steps that
//    were closed;
//  - in the history of the last checkpoint each place was a member once at most, and without `drop`
//    exactly once, in steps of the right size.
class StepLedger {
 public:
  using Violate = std::function<void(const std::string&)>;
  StepLedger(const Plan& plan, Violate violate) : plan_(plan), violate_(std::move(violate)) {}

  // A server got tablets.
  void Assigned(const v1::AssignTablets& assign);
  // A worker has pushed this closure.
  void Pushed(uint64_t timeline, uint64_t closure, uint64_t place) {
    places_[{timeline, closure}] = place;
  }
  // A server has closed a step.
  void Closed(int ps, const v1::CloseStep& close);
  void Committed(const std::string& manifest, const v1::Manifest& content);
  // Checks the history of the last checkpoint, and returns the sum of all elements of one row of
  // kSeen: what its members have added.
  double CheckHistory(const std::string& manifest) const;

 private:
  struct Timeline {
    std::vector<StepEntry> steps;    // from step 1
    std::map<int, uint64_t> newest;  // by ps: the newest step that it has closed
    uint64_t begin = 0;              // the steps of the checkpoint that it began from
  };
  void CheckFullStep(size_t step, uint64_t begin, const StepEntry& entry) const;

  const Plan& plan_;
  const Violate violate_;
  std::map<uint64_t, Timeline> timelines_;
  std::map<std::string, std::vector<StepEntry>> committed_;   // by manifest
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> places_;  // by timeline and closure
};

}  // namespace cohort::simulator

#endif  // COHORT_TESTS_SIMULATOR_STEP_LEDGER_H_
