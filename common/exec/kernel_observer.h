#ifndef COHORT_COMMON_EXEC_KERNEL_OBSERVER_H_
#define COHORT_COMMON_EXEC_KERNEL_OBSERVER_H_

namespace cohort {

// Learns when an Executable begins and ends a kernel, on the thread that runs the step.
class KernelObserver {
 public:
  virtual ~KernelObserver() = default;
  // `node`: its index in the program.
  virtual void OnBegin(int node) = 0;
  virtual void OnEnd(int node) = 0;
};

}  // namespace cohort

#endif  // COHORT_COMMON_EXEC_KERNEL_OBSERVER_H_
