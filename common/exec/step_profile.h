#ifndef COHORT_COMMON_EXEC_STEP_PROFILE_H_
#define COHORT_COMMON_EXEC_STEP_PROFILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/exec/kernel_observer.h"
#include "common/graph/op_cost.h"
#include "common/graph/program.h"

namespace cohort {

// The time of the steps of one program, by node and by phase, and what each run of a node costs.
// Not thread-safe.
class StepProfile : public KernelObserver {
 public:
  // `program` outlives this object.
  explicit StepProfile(const Program* program);

  // Forgets everything that was recorded.
  void Clear();
  // Records a part of a step: "data", "weights", "kernels", "optimizer".
  void AddPhase(const char* phase, TimePoint begin, TimePoint end);
  // A step has ended, which began then.
  void AddStep(TimePoint begin, TimePoint end);

  void OnBegin(int node) override;
  void OnEnd(int node) override;

  // The kernels of one layer or of one op, over all steps.
  struct Row {
    std::string name;
    uint64_t runs = 0;
    double seconds = 0;
    double flops = 0;  // an estimate for all ops but products
    double bytes = 0;  // inputs and outputs, each counted once
  };
  // By the name of the layer ("" for what belongs to none), and by op; the slowest first.
  std::vector<Row> ByLayer() const;
  std::vector<Row> ByOp() const;

  struct Phase {
    std::string name;
    double seconds = 0;
  };
  std::vector<Phase> Phases() const;  // in the order of their first appearance
  uint64_t steps() const { return step_seconds_.size(); }
  // The median time of a step; 0 without steps.
  double MedianStepSeconds() const;
  double BestStepSeconds() const;
  // What the operations of one step cost at full capacity, wherever they run.
  OpCost CostOfStep() const;

  // Everything that was recorded in the Trace Event Format (JSON), which chrome://tracing and
  // ui.perfetto.dev show. Times begin with the first event.
  std::string ChromeTrace() const;

 private:
  struct Event {
    int node = -1;  // -1: a phase or a step
    const char* phase = nullptr;
    TimePoint begin;
    TimePoint end;
  };
  std::vector<Row> Group(std::string Node::*name) const;

  const Program* const program_;
  std::vector<Event> events_;
  std::vector<double> step_seconds_;
  TimePoint kernel_began_;
};

}  // namespace cohort

#endif  // COHORT_COMMON_EXEC_STEP_PROFILE_H_
