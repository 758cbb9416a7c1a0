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

// The world that a cluster lives in: virtual time, chance, and processes that die. Everything runs
// in one thread; what happens next is always the earliest event, so a seed decides a whole run.

// Numbers drawn from a seed; the same on every machine.
class Chance {
 public:
  explicit Chance(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ull + 0x1234567) {}
  uint64_t Next();
  uint64_t Below(uint64_t n) { return n == 0 ? 0 : Next() % n; }
  int64_t Between(int64_t low, int64_t high) {  // both included
    return low + static_cast<int64_t>(Below(static_cast<uint64_t>(high - low + 1)));
  }
  bool Percent(uint64_t percent) { return Below(100) < percent; }

 private:
  uint64_t state_;
};

// Thrown at a crash point (common/base/crash_point.h): the process that comes there ends there.
struct CrashPointHit {};

using Event = absl::AnyInvocable<void()>;

class Stream;
enum class StreamKind { kControl, kData };

// What a process runs; its destructor is the end of the process, whenever that is.
class Life {
 public:
  virtual ~Life() = default;
  // Somebody has dialled: sets the callbacks of the accepting end.
  virtual void Accept(const std::shared_ptr<Stream>& stream, StreamKind kind) = 0;
  // Where it stands, for a run that does not end.
  virtual std::string Text() const = 0;
};

class World;

// A task's place: lives follow one another there, each with an incarnation of its own.
class Node {
 public:
  Node(World* world, Task task, std::function<std::unique_ptr<Life>(Node*)> start);

  const std::string& name() const { return name_; }
  Task task() const { return task_; }
  bool alive() const { return life_ != nullptr; }
  Life* life() { return life_.get(); }
  uint64_t lives() const { return lives_; }
  // Unlike any other life's.
  uint64_t incarnation() const;

  void Start();
  // As SIGKILL: whatever is not on disk is gone; the kernel closes its streams.
  void Kill();
  // As SIGSTOP: nothing happens in it for so long, and nobody is told.
  void Freeze(int64_t us);
  int64_t frozen_until_us() const { return frozen_until_us_; }
  // From its next step on, this life's steps never end.
  void Wedge() { wedged_life_ = lives_; }
  bool wedged() const { return wedged_life_ == lives_; }
  // No start any more: the job is done.
  void Retire() { retired_ = true; }
  bool retired() const { return retired_; }
  // The process ends by itself, once it is back out of its own code.
  void Exit();

  // Runs code of this process now: a crash point ends it.
  void Run(const std::function<void()>& code);
  // Runs it later, unless the present life has ended by then.
  void After(int64_t us, Event event);

  std::vector<std::weak_ptr<Stream>> streams;  // of the present life, closed at its end
  std::function<void(Node*)> on_end;           // when a life has ended

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

// Time and chance. The clock starts away from zero.
class World : public Clock {
 public:
  explicit World(uint64_t seed) : chance(seed) {}
  ~World() override = default;

  TimePoint Now() const override { return TimePoint(std::chrono::microseconds(now_us_)); }
  int64_t UnixMicros() const override { return now_us_; }
  int64_t now_us() const { return now_us_; }

  void At(int64_t us, Event event);
  void After(int64_t us, Event event) { At(now_us_ + us, std::move(event)); }
  // The next event; false where there is none or it lies beyond `until_us`.
  bool Step(int64_t until_us);

  // One line of the trace, where one is wanted.
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
