#ifndef COHORT_COMMON_OS_THREAD_STACKS_H_
#define COHORT_COMMON_OS_THREAD_STACKS_H_

#include <string>

namespace cohort {

// Returns the stack of every other thread of this process, for the log of a process that hangs:
//
//   worker-step (1234), running
//     cohort::MatMul(...)
//     ...
//
// A thread that the system cannot interrupt, because its storage hangs, has the name of the system
// call in which it waits instead. Takes over the signal SIGRTMIN + 7. One call at a time.
std::string StacksOfOtherThreads();

}  // namespace cohort

#endif  // COHORT_COMMON_OS_THREAD_STACKS_H_
