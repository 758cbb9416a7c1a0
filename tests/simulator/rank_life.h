#ifndef COHORT_TESTS_SIMULATOR_RANK_LIFE_H_
#define COHORT_TESTS_SIMULATOR_RANK_LIFE_H_

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "common/collective/collective_group.h"
#include "tests/simulator/collective_ledger.h"
#include "tests/simulator/peer_network.h"

namespace cohort::simulator {

// What the chief announces: a new group, and the step with which it begins.
struct EpochAnnouncement {
  uint64_t epoch = 0;
  uint64_t first_step = 1;
  uint64_t step_try = 1;
  std::vector<uint64_t> incarnations;  // by rank
};

// What the ranks share with the simulation around them.
class RankWorld {
 public:
  virtual ~RankWorld() = default;

  virtual const CollectivePlan& plan() const = 0;
  virtual World* world() = 0;
  virtual Network* network() = 0;
  virtual CollectiveLedger* ledger() = 0;
  virtual Node* NodeOf(int rank) = 0;
  virtual uint64_t newest_epoch() const = 0;
  // A process waits for an epoch.
  virtual void OnIdle(int rank, uint64_t left_epoch) = 0;
  // A rank has all results of a step.
  virtual void OnStep(int rank, uint64_t step) = 0;
  // True if no rank will begin this step. The answer is the same for all ranks.
  virtual bool IsOver(uint64_t step) = 0;
  virtual bool faults_over() const = 0;
  // The pause of a rank before its next bucket.
  virtual int64_t PauseOf(int rank) = 0;
};

// The process of one rank: the real CollectiveGroup, one epoch after another, and the exchange of
// buckets of random sizes. It checks each result.
class RankLife final : public Life {
 public:
  RankLife(RankWorld* around, Node* node);
  ~RankLife() override;

  void Accept(const std::shared_ptr<Stream>& stream, StreamKind) override {
    process_.Accept(stream);
  }
  std::string Text() const override { return doing_; }
  void OnAnnouncement(EpochAnnouncement announcement);

 private:
  struct InFlight;

  void Body();
  bool AwaitAnnouncement(EpochAnnouncement* announcement);
  CollectiveGroupOptions OptionsOf(const EpochAnnouncement& announcement);
  void Join(const EpochAnnouncement& announcement);
  void Train(CollectiveGroup* group, const EpochAnnouncement& announcement);
  bool Exchange(CollectiveGroup* group, uint64_t epoch, uint64_t step, uint64_t step_try);
  void KeepEnded(std::unique_ptr<InFlight> one);
  bool Begin(CollectiveGroup* group, uint64_t epoch, InFlight* one);
  bool Finish(CollectiveGroup* group, uint64_t epoch, InFlight* one);
  void CheckResult(uint64_t epoch, const InFlight& one);
  void CheckFailure(uint64_t epoch, const InFlight* one, const absl::Status& status);
  void Pause();
  int64_t now_us() const { return around_->world()->now_us(); }
  // Checks that a call has not taken longer than `most_us`, except while the process was stopped.
  void CheckTime(const char* call, int64_t since_us, int64_t most_us);

  RankWorld* const around_;
  Node* const node_;
  const int rank_;
  CollectiveLedger* const ledger_;
  PeerProcess process_;
  std::deque<EpochAnnouncement> announced_;
  std::deque<std::unique_ptr<InFlight>> ended_;
  std::vector<std::unique_ptr<InFlight>> given_up_;  // until their group has ended
  std::string doing_;
  uint64_t last_epoch_ = 0;
};

}  // namespace cohort::simulator

#endif  // COHORT_TESTS_SIMULATOR_RANK_LIFE_H_
