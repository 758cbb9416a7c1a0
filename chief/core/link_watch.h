#ifndef COHORT_CHIEF_CORE_LINK_WATCH_H_
#define COHORT_CHIEF_CORE_LINK_WATCH_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "chief/core/core_counters.h"
#include "common/cluster/cluster_spec.h"

namespace cohort {

// Finds the servers, the links and the workers that are alive but slow. Workers report with each
// Pong how long each server has let them wait (LinkFigures). Nothing is measured against a fixed
// time, because what is usual depends on the job: waits are compared with each other. A link is
// *high* if its worker waits on it much longer than on its other links.
//
//   what        is slow if
//   a server    more than half of its workers, and at least two, find their link to it high
//   a link      it is high, its server is not slow, and its worker waits on it much longer than
//               other workers wait for that server
//   a worker    it waits on each of its links much longer than other workers do
//
// "Much longer" is kFactor times the median of the others, and kFloor more. A server that moves
// more bytes than others may take longer in proportion. p50 counts, and p99 if there are enough
// requests, because a link that loses one packet in a hundred has a usual p50.
//
//   calm ─(1) slow in kRounds looks with new figures─► slow ─(2) not slow in kRounds looks─► calm
//
// The limits of (2) are lower than those of (1), so what lies between them changes nothing. Both
// edges are reported once.
//
// A plain state machine. Time comes with the calls.
class LinkWatch {
 public:
  // A server that is only twice as busy as others, and one on the next rack, are below this.
  static constexpr double kFactor = 3;
  static constexpr double kEndFactor = 2;
  // Ten times the round trip of a usual network. Below it a step hardly notices.
  static constexpr double kFloorSeconds = 0.002;
  static constexpr double kEndFloorSeconds = 0.001;
  // The floor of p99 is higher: the schedulers of busy hosts delay by milliseconds.
  static constexpr double kTailFloorSeconds = 0.02;
  static constexpr uint64_t kTailRequests = 200;
  static constexpr int64_t kLookUs = 1'000'000;  // between two looks: one Pong of each task
  static constexpr int kRounds = 5;
  // Figures that are older do not count: their worker does not use the server now.
  static constexpr int64_t kForgetUs = 30'000'000;

  struct Event {
    const char* name = "";  // for the log: "slow_server", "slow_server_ended"
    std::string what;
    bool begins = false;
  };

  // A task is there, on a host with this id. What it has reported before is void.
  void OnAdopted(Task task, const std::string& host_id);
  void OnLost(Task task);
  // A Pong of a worker, and of a server: all bytes of payload that it has moved.
  void OnWaits(int worker, const std::vector<LinkFigure>& waits, int64_t now_us);
  void OnBytes(int server, uint64_t bytes);
  // Looks at the figures if it is time. `turns`: pushes of one worker may wait for those of others
  // (mode sync), so workers are not compared.
  std::vector<Event> Tick(int64_t now_us, bool turns);

  // The newest figures of each link, by worker and server.
  std::vector<LinkFigure> figures() const;
  // What is slow now, as sentences, and how many of each kind.
  std::vector<std::string> slow() const;
  size_t slow_servers() const { return Count(Kind::kServer); }
  size_t slow_links() const { return Count(Kind::kLink); }
  size_t slow_workers() const { return Count(Kind::kWorker); }

 private:
  enum class Kind : uint8_t { kServer, kLink, kWorker };
  // {kServer, -1, server}, {kLink, worker, server}, {kWorker, worker, -1}.
  struct Subject {
    Kind kind = Kind::kLink;
    int worker = -1;
    int server = -1;
    auto operator<=>(const Subject&) const = default;
  };
  // p50 and p99, in seconds.
  using Waits = std::array<double, 2>;
  struct Finding {
    bool slow = false;
    bool fresh = false;  // some of its figures have come since the last look
    Waits own{};         // compared with `others`
    Waits others{};
    std::string compared;  // "other servers"
  };
  struct State {
    bool slow = false;
    int rounds = 0;  // in a row that contradict `slow`
    std::string what;
  };
  struct Link {
    LinkFigure figure;
    int64_t reported_us = 0;
    bool fresh = false;
  };
  struct Server {
    std::string host;
    uint64_t bytes = 0;  // in its last Pong
    double moved = 0;    // lately
    bool reported = false;
  };
  class Look;

  bool is_slow(const Subject& subject) const {
    const auto state = states_.find(subject);
    return state != states_.end() && state->second.slow;
  }
  void Decide(const std::map<Subject, Finding>& findings, std::vector<Event>* events);
  size_t Count(Kind kind) const;
  static std::string NameOf(const Subject& subject);

  std::map<int, std::string> worker_hosts_;
  std::map<int, Server> servers_;
  std::map<std::pair<int, int>, Link> links_;  // by worker and server
  std::map<Subject, State> states_;
  int64_t next_look_us_ = 0;
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_LINK_WATCH_H_
