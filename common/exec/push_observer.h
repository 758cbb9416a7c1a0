#ifndef COHORT_COMMON_EXEC_PUSH_OBSERVER_H_
#define COHORT_COMMON_EXEC_PUSH_OBSERVER_H_

#include <cstddef>

namespace cohort {

// Learns during Executable::Run which pushes are complete, on the thread that runs the step.
class PushObserver {
 public:
  virtual ~PushObserver() = default;
  // The value of this push (index into Program::pushes) is final. Called once for each push. The
  // run continues when it returns.
  virtual void OnPushReady(size_t push) = 0;
};

}  // namespace cohort

#endif  // COHORT_COMMON_EXEC_PUSH_OBSERVER_H_
