#ifndef COHORT_CHIEF_CORE_LOAD_WATCH_H_
#define COHORT_CHIEF_CORE_LOAD_WATCH_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace cohort {

// Finds the tablet that should move from the busiest server to the idlest one (`strategy.rebalance:
// auto`). The load of a tablet is the payload that workers pull from it and push to it; servers
// report it with each Pong. Loads are compared with each other, because what a server can bear
// depends on the job. What is older counts ever less.
//
//   balanced ─(1) too busy in kRounds looks in a row─► Tick returns a move ─► balanced
//
// A server is *too busy* if another place of one of its tablets makes the busier one of the two
// servers less busy by a tenth. So each move makes the busiest server less busy, and a tablet never
// returns while the loads stay what they are. Tablets move one at a time.
//
// A plain state machine. Time comes with the calls.
class LoadWatch {
 public:
  static constexpr double kGain = 0.1;
  static constexpr int64_t kLookUs = 1'000'000;  // between two looks: one Pong of each task
  static constexpr int kRounds = 5;
  static constexpr double kFade = 0.8;  // each look multiplies older loads by it
  // A server that moves less is not busy.
  static constexpr double kFloorBytesPerSecond = 16 << 10;
  // While a tablet's server has reported nothing for this time, nothing is compared.
  static constexpr int64_t kForgetUs = 10'000'000;

  struct Move {
    uint32_t tablet = 0;
    int server = 0;   // where it should be
    std::string why;  // for the log
  };

  // A server that answers for the tablet has moved these bytes of it, since it has the tablet.
  void OnMoved(int server, uint32_t tablet, uint64_t bytes, int64_t now_us);
  // Looks at the loads if it is time. `places`: the server of each tablet. `servers`: those that
  // may have tablets.
  std::optional<Move> Tick(const std::map<uint32_t, int>& places, const std::set<int>& servers,
                           int64_t now_us);
  // Tablets cannot move now: the looks before do not count.
  void Wait() { rounds_ = 0; }

 private:
  struct Load {
    int server = -1;     // that has reported it
    uint64_t bytes = 0;  // its last report
    double fresh = 0;    // since the last look
    double faded = 0;    // older than that, multiplied by kFade in each look
    int64_t reported_us = 0;
  };

  std::optional<Move> Look(const std::map<uint32_t, int>& places, const std::set<int>& servers,
                           int64_t now_us);

  std::map<uint32_t, Load> loads_;  // by tablet
  int64_t next_look_us_ = 0;
  int busiest_ = -1;
  int rounds_ = 0;  // in a row in which it was too busy
};

}  // namespace cohort

#endif  // COHORT_CHIEF_CORE_LOAD_WATCH_H_
