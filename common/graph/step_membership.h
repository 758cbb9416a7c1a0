#ifndef COHORT_COMMON_GRAPH_STEP_MEMBERSHIP_H_
#define COHORT_COMMON_GRAPH_STEP_MEMBERSHIP_H_

#include <cstdint>

namespace cohort {

// Which member of a synchronous step a closure is (v1.StepMembership).
struct StepMembership {
  uint64_t step = 0;      // number of the step, from 1; 0: async, there are no steps
  uint64_t step_try = 0;  // rises when the chief abandons a step
  uint32_t index = 0;     // position in the step: gradients are summed in this order
  bool partial = false;   // the chief may close the step without some of its closures

  bool sync() const { return step > 0; }
  bool operator==(const StepMembership&) const = default;

  // For v1.StepMembership; a template, so that this header needs no messages.
  template <typename Proto>
  static StepMembership Of(const Proto& proto) {
    return {proto.step(), proto.step_try(), proto.index(), proto.partial()};
  }
  template <typename Proto>
  void ToProto(Proto* out) const {
    out->set_step(step);
    out->set_step_try(step_try);
    out->set_index(index);
    out->set_partial(partial);
  }
};

}  // namespace cohort

#endif  // COHORT_COMMON_GRAPH_STEP_MEMBERSHIP_H_
