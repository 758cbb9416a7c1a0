#ifndef COHORT_CHIEF_CORE_MEMBERSHIP_H_
#define COHORT_CHIEF_CORE_MEMBERSHIP_H_

#include <absl/status/status.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chief/core/outbox.h"
#include "common/cluster/protocol_version.h"

namespace cohort {

// The link between this chief and a task.
//
//            (1)              (2)             (3)               (4)
//   kDown ────────► kProbing ─────► kProbed ───────► kAdopting ─────► kAdopted
//    ▲ │              ▲ │(2')                            ▲               │
//    │ │              └─┘                                │               │
//    │ └──────────────────────(1')───────────────────────┘               │
//    └────────────────────────(5) from anywhere──────────────────────────┘
//
// (1) The stream is open and no generation is taken yet: the chief probes, and takes nothing over.
// (2) The task's hello reports no other chief. (2') The hello reports another chief. The chief asks
// again for a while, then refuses to start and names the task. If the task has lost that other
// chief, it soon forgets that chief; the new chief waits for that. (3) All required tasks are
// probed and a generation is taken: the chief adopts the task. (1') The stream is open and a
// generation is already taken: the chief adopts at once. (4) The task's hello has come. (5) The
// stream has ended, or the task was silent for too long.
enum class Link : uint8_t { kDown, kProbing, kProbed, kAdopting, kAdopted };

struct Member {
  Link link = Link::kDown;
  uint64_t incarnation = 0;  // incarnation in its last hello
  uint64_t request = 0;      // number of the last question
  bool known = false;        // this chief has adopted it at least once
  int64_t since_us = 0;      // when it went missing, if it is missing
  int64_t heard_us = 0;
  int64_t asked_us = 0;           // last probe or ping
  bool hears_other = false;       // it reports another chief
  int64_t refused_since_us = -1;  // when it first reported another chief that is alive; -1: never
  std::string why_down;
  bool refused = false;  // it has joined, and this chief cannot use it: its place becomes free
  bool differs = false;  // it calculates otherwise than the others, and the chief has logged that
  // In its last Pong on this connection, or on the lost one.
  std::shared_ptr<const v1::TaskFigures> figures = std::make_shared<const v1::TaskFigures>();
  uint64_t lost_memory_bytes = 0;  // in the last Pong of the connection before
};

// The common part of WorkerHello and PsHello.
struct Hello {
  uint64_t request = 0;  // number of the question that it answers; 0: none
  v1::TaskId task;
  uint64_t incarnation = 0;
  std::string job;
  uint64_t heard_generation = 0;
  uint64_t timeline = 0;
  bool hears_chief = false;
  bool chief_lost = false;  // it has lost that chief, and forgets it after chief_timeout
  bool sees_checkpoint_dir = true;
  ProtocolVersion protocol;
  std::vector<std::string> classes;  // those that plugins of a worker add
  std::optional<v1::NumericFingerprint> fingerprint;
};

// `Proto`: v1::WorkerHello or v1::PsHello.
template <typename Proto>
Hello HelloOf(uint64_t request, const Proto& proto) {
  Hello hello{.request = request,
              .task = proto.task(),
              .incarnation = proto.incarnation(),
              .job = proto.job(),
              .heard_generation = proto.heard_generation(),
              .timeline = proto.timeline(),
              .hears_chief = proto.hears_chief(),
              .chief_lost = proto.chief_lost(),
              .protocol = ProtocolVersion::Of(proto)};
  if constexpr (requires { proto.sees_checkpoint_dir(); }) {
    hello.sees_checkpoint_dir = proto.sees_checkpoint_dir();
  }
  if constexpr (requires { proto.classes(); }) {
    hello.classes.assign(proto.classes().begin(), proto.classes().end());
  }
  if (proto.has_fingerprint()) hello.fingerprint = proto.fingerprint();
  return hello;
}

// The chief's view of its tasks: probing, adoption, pings, silence.
class Membership {
 public:
  enum class Verdict {
    kIgnored,  // not an answer, or the task hears another chief and is asked again
    kProbed,
    kAdopted,  // edge (4), for the first time or with the same incarnation
    kReborn,   // edge (4), as a new process
    kFatal,    // see failure()
  };

  Membership(const CoreOptions* options, Outbox* outbox);

  // This chief cannot use a task that has joined: its place becomes free.
  void Refuse(Task task, const std::string& why, int64_t now_us);
  // The place has a new task.
  void OnJoined(Task task, int64_t now_us) { member(task) = {.since_us = now_us}; }
  void OnConnected(Task task, int64_t now_us);
  void OnDisconnected(Task task, const std::string& why, int64_t now_us);
  Verdict OnHello(Task task, const Hello& hello, int64_t now_us);
  void OnHeard(Task task, int64_t now_us) { member(task).heard_us = now_us; }
  void OnPong(Task task, const v1::Pong& pong) {
    member(task).figures = std::make_shared<const v1::TaskFigures>(pong.figures());
  }
  // What `task` has reported last.
  TaskReport ReportOf(Task task, int64_t now_us) const;
  // Sends probes and pings; requests a new stream to a task that is silent.
  void Tick(int64_t now_us);

  // Takes edge (3) for all tasks that are probed.
  void AdoptAll(int64_t now_us);

  Member& member(Task task) {
    return task.role == Role::kWorker ? workers_[task.index] : ps_[task.index];
  }
  const Member& member(Task task) const { return const_cast<Membership*>(this)->member(task); }
  bool adopted(Task task) const { return member(task).link == Link::kAdopted; }
  int count(Role role, Link at_least) const;
  // Free places and refused tasks do not count; without `joined` no places do.
  bool all(Role role, Link at_least, bool joined = true) const;
  // True if a connected worker hears another chief: this chief must not adopt any task.
  bool any_worker_hears_other() const;
  // The highest generation and timeline that any task knows, from any job and journal. A delayed
  // push of an earlier chief cannot have a higher one.
  uint64_t heard_generation() const { return heard_generation_.number; }
  uint64_t heard_timeline() const { return heard_timeline_.number; }
  // The task that reported it: "worker:2 (host3:2222)".
  const std::string& heard_generation_by() const { return heard_generation_.by; }
  const std::string& heard_timeline_by() const { return heard_timeline_.by; }
  // How the workers calculate; nullopt if nobody asks, or no worker has reported it.
  const std::optional<v1::NumericFingerprint>& fingerprint() const {
    return worker_reference_.fingerprint;
  }
  // All tasks, workers first; no free places.
  std::vector<Task> tasks() const;
  // How many tasks TF_CONFIG names.
  int named(Role role) const {
    const auto& members = role == Role::kWorker ? workers_ : ps_;
    return static_cast<int>(members.size() - options_->places(role));
  }
  // The highest index of a task, and one. There may be free places below.
  int workers() const { return End(options_->workers); }
  int ps() const { return End(options_->ps); }

  // "worker:2 (host3:2222), 12 s; ps:0 (host1:2222), 12 s: connection refused"; "" = none.
  std::string Missing(int64_t now_us) const;
  // The reason why this chief cannot run; OK if it can.
  const absl::Status& failure() const { return failure_; }
  // "worker:2 (host3:2222)".
  std::string Name(Task task) const { return TaskName(*options_, task); }
  // Its name, and why the chief does not have it: "worker:2 (host3:2222): connection reset".
  std::string Lost(Task task) const { return Name(task) + ": " + member(task).why_down; }

 private:
  static int End(const std::vector<std::string>& addresses);
  bool exists(Task task) const;
  void Ask(Task task, bool probe, int64_t now_us);
  void SetLink(Member* member, Link link, int64_t now_us);
  // Keeps `why` without the name of the task, with which many reasons begin.
  void SetWhyDown(Task task, std::string_view why);
  absl::Status CheckHello(Task task, const Hello& hello) const;
  absl::Status CheckClasses(Task task, const Hello& hello) const;
  absl::Status CheckFingerprint(Task task, const Hello& hello);
  Verdict OnAdopted(Task task, uint64_t incarnation, int64_t now_us);
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
  // How the tasks of a role must calculate, and which task or checkpoint decided it.
  struct Reference {
    std::optional<v1::NumericFingerprint> fingerprint;
    std::string by;
  };
  Reference worker_reference_;
  Reference ps_reference_;
  Heard heard_generation_;
  Heard heard_timeline_;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_MEMBERSHIP_H_
