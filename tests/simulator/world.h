#ifndef COHORT_TESTS_SIMULATOR_WORLD_H_
#define COHORT_TESTS_SIMULATOR_WORLD_H_

#include <absl/functional/any_invocable.h>
#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/cluster/cluster_spec.h"

namespace cohort::simulator {

// The simulated environment of a cluster: virtual time, random numbers, and processes that die.
// Everything runs in one thread, and the earliest event always runs next, so a seed decides a whole
// run. A Life is one incarnation of a task's process.

// Random numbers from a seed; the same on every machine.
class Chance {
 public:
  explicit Chance(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ull + 0x1234567) {}
  uint64_t Next();
  uint64_t Below(uint64_t n) { return n == 0 ? 0 : Next() % n; }
  int64_t Between(int64_t low, int64_t high) {  // both included
    return low + static_cast<int64_t>(Below(static_cast<uint64_t>(high - low + 1)));
  }
  bool Percent(uint64_t percent) { return Below(100) < percent; }
  double Exponential();  // with the mean 1

 private:
  uint64_t state_;
};

// Thrown at a crash point (common/base/crash_point.h): it ends the process that reaches the point.
struct CrashPointHit {};

using Event = absl::AnyInvocable<void()>;

class Stream;
enum class StreamKind { kControl, kData, kCopy };

// The code and the state of one process. Its destructor is the end of the process, which may come
// at any time.
class Life {
 public:
  virtual ~Life() = default;
  // Another process has dialled this one. Sets the callbacks of the accepting end.
  virtual void Accept(const std::shared_ptr<Stream>& stream, StreamKind kind) = 0;
  // SIGTERM: the process ends as soon as it holds no work.
  virtual void Leave() {}
  // The state of the process, to explain a run that does not end.
  virtual std::string Text() const = 0;
};

class World;

// One task of the cluster. Its processes (class Life) follow one another, and each has a different
// incarnation.
class Node {
 public:
  Node(World* world, Task task, std::function<std::unique_ptr<Life>(Node*)> start);

  const std::string& name() const { return name_; }
  Task task() const { return task_; }
  bool alive() const { return life_ != nullptr; }
  Life* life() { return life_.get(); }
  uint64_t lives() const { return lives_; }
  // The incarnation of the present process; no other process has the same.
  uint64_t incarnation() const;

  void Start();
  // Acts like SIGKILL: data that is not on disk is lost, and the kernel closes the streams.
  void Kill();
  // Acts like SIGSTOP: the process does nothing for `us`, and no other task is informed.
  void Freeze(int64_t us);
  int64_t frozen_until_us() const { return frozen_until_us_; }
  // From its next step on, the steps of the present process never end.
  void Wedge() { wedged_life_ = lives_; }
  bool wedged() const { return wedged_life_ == lives_; }
  // Prevents further starts: the job is done.
  void Retire() { retired_ = true; }
  bool retired() const { return retired_; }
  // Ends the process by itself, as soon as its own code has returned.
  void Exit();

  // Runs code of this process now. A crash point in it ends the process.
  void Run(const std::function<void()>& code);
  // Runs the event later, unless the present process has ended before.
  void After(int64_t us, Event event);

  std::string address;  // where it serves
  int number;           // its index in the cluster; those who join get it from the chief

  std::vector<std::weak_ptr<Stream>> streams;  // the present process's, closed at its end
  std::function<void(Node*)> on_end;           // called when a process has ended

 private:
  void Deliver(uint64_t life, Event event);

  World* const world_;
  const Task task_;
  const std::string name_;
  const std::function<std::unique_ptr<Life>(Node*)> start_;
  std::unique_ptr<Life> life_;
  uint64_t lives_ = 0;
  int64_t frozen_until_us_ = 0;
  uint64_t wedged_life_ = 0;
  bool retired_ = false;
};

// Virtual time and random numbers. The clock does not start at zero.
class World : public Clock {
 public:
  explicit World(uint64_t seed) : chance(seed) {}
  ~World() override = default;

  TimePoint Now() const override { return TimePoint(std::chrono::microseconds(now_us_)); }
  int64_t UnixMicros() const override { return now_us_; }
  int64_t now_us() const { return now_us_; }

  void At(int64_t us, Event event);
  void After(int64_t us, Event event) { At(now_us_ + us, std::move(event)); }
  // Runs the next event. Returns false if there is none before or at `until_us`.
  bool Step(int64_t until_us);

  // Writes one line of the trace, if there is one.
  template <typename... Args>
  void Trace(fmt::format_string<Args...> format, Args&&... args) {
    if (trace)
      trace(fmt::format("{:>10} {}", now_us_, fmt::format(format, std::forward<Args>(args)...)));
  }

  Chance chance;
  std::function<void(const std::string& line)> trace;
  uint64_t events = 0;

 private:
  struct Entry {
    int64_t us;
    uint64_t number;
    mutable Event event;
    bool operator<(const Entry& other) const {
      return us != other.us ? us > other.us : number > other.number;
    }
  };
  int64_t now_us_ = 1'000'000'000;
  uint64_t next_ = 0;
  std::priority_queue<Entry> queue_;
};

}  // namespace cohort::simulator

#endif  // COHORT_TESTS_SIMULATOR_WORLD_H_
