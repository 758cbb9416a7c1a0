#ifndef COHORT_TESTS_SIMULATOR_FIBER_H_
#define COHORT_TESTS_SIMULATOR_FIBER_H_

#include <cstddef>
#include <functional>
#include <memory>

namespace cohort::simulator {

// Runs code that blocks on a separate stack in a program of one thread. The step loop of a worker
// and the job runner's walk wait in the middle of a call while the rest of the world continues.
//
//   Resume ──► body runs ──► Suspend ──► Resume returns ... Resume ──► Suspend returns ...
//
// The destructor of a fiber that has not ended unwinds it: Suspend throws through its frames, as if
// the process had died there. Nothing may Suspend while it handles an exception.
class Fiber {
 public:
  explicit Fiber(std::function<void()> body);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs the body until it suspends or ends. Throws the exceptions of the body.
  void Resume();
  bool ended() const;

  // Inside a fiber: returns to the caller of Resume.
  static void Suspend();

 private:
  struct Context;
  static void Enter();
  void Switch();

  std::unique_ptr<Context> context_;
};

}  // namespace cohort::simulator

#endif  // COHORT_TESTS_SIMULATOR_FIBER_H_
