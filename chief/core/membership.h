#ifndef COHORT_CHIEF_CORE_MEMBERSHIP_H_
#define COHORT_CHIEF_CORE_MEMBERSHIP_H_

#include <absl/status/status.h>

#include <cstdint>
#include <string>
#include <vector>

#include "chief/core/outbox.h"

namespace cohort {

// Where a task stands with this chief.
//
//            (1)              (2)             (3)               (4)
//   kDown ────────► kProbing ─────► kProbed ───────► kAdopting ─────► kAdopted
//     ▲ │              ▲ │(2')         ▲                ▲                │
//     │ │              └─┘             │                │                │
//     │ └──────────────────────────────┼────(1')────────┘                │
//     └──────────────(5) from anywhere─┴─────────────────────────────────┘
//
// (1) the stream is open, no generation is taken yet: ask, take nothing over. (2) its hello: no
// other chief. (2') it hears another chief: asked again for a while, then Start is refused by name;
// for as long as it takes where the task has lost that chief, for then it decides in a while
// itself. (3) all that must be there are probed and a generation is taken: adopt. (1') the stream
// is open and a generation is taken: adopt at once. (4) its hello. (5) the stream ended, or nothing
// was heard for too long.
enum class Link : uint8_t { kDown, kProbing, kProbed, kAdopting, kAdopted };

struct Member {
  Link link = Link::kDown;
  uint64_t incarnation = 0;  // of its last hello
  uint64_t request = 0;      // of the last question
  bool known = false;        // it was adopted by this chief before
  int64_t since_us = 0;      // since when it is missing, where it is
  int64_t heard_us = 0;
  int64_t asked_us = 0;           // last probe or ping
  bool hears_other = false;       // it says that it hears another chief
  int64_t refused_since_us = -1;  // since when, and that it has not lost it
  std::string why_down;
};

// What is common to WorkerHello and PsHello.
struct Hello {
  uint64_t request = 0;  // that it answers; 0: unasked
  v1::TaskId task;
  uint64_t incarnation = 0;
  std::string job;
  uint64_t heard_generation = 0;
  uint64_t timeline = 0;
  bool hears_chief = false;
  bool chief_lost = false;  // that one; it is heard for the task's chief_timeout only
  bool sees_checkpoint_dir = true;
};

// The chief's view of who is there: probing, adoption, pings, silence.
class Membership {
 public:
  enum class Verdict {
    kIgnored,  // not asked for, or the task still hears another chief: asked again
    kProbed,
    kAdopted,  // edge (4): set it up
    kFatal,    // see failure()
  };

  Membership(const CoreOptions* options, Outbox* outbox);

  void OnConnected(Task task, int64_t now_us);
  void OnDisconnected(Task task, const std::string& why, int64_t now_us);
  Verdict OnHello(Task task, const Hello& hello, int64_t now_us);
  void OnHeard(Task task, int64_t now_us) { member(task).heard_us = now_us; }
  // Sends probes and pings; asks for a new stream where a task is silent.
  void Tick(int64_t now_us);

  // Edge (3), for all that are probed.
  void AdoptAll(int64_t now_us);

  Member& member(Task task) {
    return task.role == Role::kWorker ? workers_[task.index] : ps_[task.index];
  }
  const Member& member(Task task) const { return const_cast<Membership*>(this)->member(task); }
  bool adopted(Task task) const { return member(task).link == Link::kAdopted; }
  int count(Role role, Link at_least) const;
  bool all(Role role, Link at_least) const;
  // Whether a worker that is there hears another chief: nothing may be taken over then.
  bool any_worker_hears_other() const;
  // The highest generation and timeline that a task has heard of, from whatever job and journal: a
  // push of any former chief that is still under way bears none above them.
  uint64_t heard_generation() const { return heard_generation_.number; }
  uint64_t heard_timeline() const { return heard_timeline_.number; }
  // "worker:2 (host3:2222)": who has.
  const std::string& heard_generation_by() const { return heard_generation_.by; }
  const std::string& heard_timeline_by() const { return heard_timeline_.by; }
  int workers() const { return static_cast<int>(workers_.size()); }
  int ps() const { return static_cast<int>(ps_.size()); }

  // "worker:2 (host3:2222), 12 s; ps:0 (host1:2222), 12 s: connection refused"; "" = all are there.
  std::string Missing(int64_t now_us) const;
  // Why this chief cannot run at all; OK where it can.
  const absl::Status& failure() const { return failure_; }
  // "worker:2 (host3:2222)".
  std::string Name(Task task) const;

 private:
  void Ask(Task task, bool probe, int64_t now_us);
  void SetLink(Member* member, Link link, int64_t now_us);
  absl::Status CheckHello(Task task, const Hello& hello) const;
  void TickMember(Task task, int64_t now_us);

  const CoreOptions* const options_;
  Outbox* const outbox_;
  std::vector<Member> workers_;
  std::vector<Member> ps_;
  absl::Status failure_;
  struct Heard {
    uint64_t number = 0;
    std::string by;
  };
  void Hear(Task task, uint64_t number, Heard* heard) const;
  Heard heard_generation_;
  Heard heard_timeline_;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_MEMBERSHIP_H_
