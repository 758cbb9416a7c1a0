#ifndef COHORT_TESTS_SIMULATOR_STEP_LEDGER_H_
#define COHORT_TESTS_SIMULATOR_STEP_LEDGER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "chief/core/job_settings.h"
#include "common/tablet/push_pull_views.h"
#include "proto/checkpoint.pb.h"
#include "proto/parameter_server.pb.h"
#include "proto/worker.pb.h"
#include "tests/simulator/plan.h"

namespace cohort::simulator {

// A synchronous step that a server has closed.
struct StepEntry {
  std::vector<uint64_t> closures;  // its members, by index
  std::vector<uint64_t> places;    // the places of these closures
  uint64_t iteration = 0;
  uint64_t next_place = 0;
  ModeSettings mode;
  bool may_be_short = false;  // the mode was about to change
  bool operator==(const StepEntry&) const = default;
};

// The evidence about modes and synchronous steps: what chiefs have dispatched, what servers have
// applied and closed in each timeline, and what the checkpoints contain. It checks that
//  - a closure has one mode in its timeline, and closures of a later mode follow those of an
//    earlier one by place;
//  - all servers close a step with the same members, one step after the other, and a step only when
//    every server has closed the one before;
//  - the position of a checkpoint, and the ids that its tablets have applied, fit to the steps that
//    were closed;
//  - in the history of the last checkpoint each place was a member once at most, and without `drop`
//    exactly once, in steps of the right size; optimizers have counted each step, and each place of
//    another mode, once.
class StepLedger {
 public:
  using Violate = std::function<void(const std::string&)>;
  StepLedger(const Plan& plan, Violate violate) : plan_(plan), violate_(std::move(violate)) {}

  // A server got tablets.
  void Assigned(const v1::AssignTablets& assign);
  // A chief whose mode is `mode` sends this closure to a worker.
  void Dispatched(const v1::Closure& closure, const ModeSettings& mode);
  // The mode of this push's closure; null if no chief has dispatched it.
  const ModeSettings* ModeOf(const PushHeaderView& push) const;
  // A worker has pushed this closure of a step.
  void Pushed(const PushHeaderView& push) {
    places_[{push.timeline, push.id.closure}] = push.place;
  }
  // The closures of a timeline before `watermark` are settled.
  void Settled(uint64_t timeline, uint64_t watermark) { settled_[timeline] = watermark; }
  // A server answers that a tablet has taken the push: it was applied, or staged for its step. One
  // that stood still may do that long after the closure was settled.
  void Taken(const PushHeaderView& push);
  // A chief whose mode is `mode` asks a server to close a step.
  void AskedToClose(const v1::CloseStep& close, const ModeSettings& mode, bool changes_mode);
  // A server has closed a step.
  void Closed(int ps, const v1::CloseStep& close);
  void Committed(const std::string& manifest, const v1::Manifest& content);
  // Checks the history of the last checkpoint. Returns the share of one update that each place has:
  // one divided by the members of its step; one without steps; zero if its step was closed without
  // it.
  std::vector<double> SharesIn(const std::string& manifest) const;

 private:
  struct Timeline {
    std::vector<StepEntry> steps;    // from step 1
    std::map<int, uint64_t> newest;  // by ps: the newest step that it has closed
    uint64_t begin = 0;              // the steps of the checkpoint that it began from
    // The ends of the places that were taken, in steps and without them.
    uint64_t staged_end = 0;
    uint64_t applied_end = 0;
  };
  struct History {
    std::vector<StepEntry> steps;
    v1::StepPosition position;
  };
  // The boundary after a step, or after the places without steps that follow it.
  struct Boundary {
    uint64_t iteration = 0;
    uint64_t next_place = 0;
  };
  static Boundary Behind(const std::vector<StepEntry>& steps);
  void CheckStep(size_t step, uint64_t begin, const StepEntry& entry) const;

  const Plan& plan_;
  const Violate violate_;
  std::map<uint64_t, Timeline> timelines_;
  std::map<uint64_t, uint64_t> settled_;                         // by timeline
  std::map<std::string, History> committed_;                     // by manifest
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> places_;     // by timeline and closure
  std::map<std::pair<uint64_t, uint64_t>, ModeSettings> modes_;  // by timeline and closure
  // By timeline and step: what the chief that closed it knew.
  std::map<std::pair<uint64_t, uint64_t>, std::pair<ModeSettings, bool>> asked_;
};

}  // namespace cohort::simulator

#endif  // COHORT_TESTS_SIMULATOR_STEP_LEDGER_H_
