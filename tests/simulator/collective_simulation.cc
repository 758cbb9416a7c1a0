#include "tests/simulator/collective_simulation.h"

#include <algorithm>
#include <utility>

#include "tests/simulator/rank_life.h"

namespace cohort::simulator {
namespace {

// The virtual time that a run may take after the faults, and its events. Both are far more than any
// run needs.
constexpr int64_t kPatienceUs = 120'000'000;
constexpr uint64_t kMostEvents = 3'000'000;
// How long an announcement, or the news that a rank waits for one, travels at most.
constexpr int64_t kNewsUs = 20'000;
// How long a wedged rank is away.
constexpr int64_t kWedgeDeadlines = 3;

// The ranks, their chief and the faults. The chief is no process: it knows which processes are
// alive, and announces a new epoch when a rank has left the newest one.
class CollectiveSimulation final : public RankWorld {
 public:
  CollectiveSimulation(uint64_t seed, std::function<void(const std::string&)> trace,
                       CollectiveBug bug)
      : plan_(seed, bug),
        world_(seed),
        network_(&world_, plan_.network),
        ledger_(plan_),
        finished_(static_cast<size_t>(plan_.ranks)),
        wedged_(static_cast<size_t>(plan_.ranks)) {
    world_.trace = std::move(trace);
  }

  CollectiveOutcome Run() {
    world_.Trace("{}", plan_.Text());
    for (int rank = 0; rank < plan_.ranks; ++rank) {
      nodes_.push_back(std::make_unique<Node>(
          &world_, Task{Role::kWorker, rank},
          [this](Node* node) { return std::make_unique<RankLife>(this, node); }));
      Node* const node = nodes_.back().get();
      node->on_end = [this](Node* n) { Supervise(n); };
      world_.After(world_.chance.Between(0, 50'000), [node] { node->Start(); });
    }
    StartFaults();
    const int64_t until_us = world_.now_us() + plan_.faults_for_us + kPatienceUs;
    while (!finished() && world_.events < kMostEvents && world_.Step(until_us)) {
    }
    if (!finished()) TellWhere();
    over_ = true;
    nodes_.clear();  // the end of the processes is a part of the run too
    CollectiveStatistics& statistics = ledger_.statistics;
    statistics.runs = 1;
    statistics.events = world_.events;
    statistics.network = network_.counts;
    return {std::move(ledger_.violations), statistics, plan_.Text()};
  }

  // RankWorld
  const CollectivePlan& plan() const override { return plan_; }
  World* world() override { return &world_; }
  Network* network() override { return &network_; }
  CollectiveLedger* ledger() override { return &ledger_; }
  Node* NodeOf(int rank) override { return nodes_[static_cast<size_t>(rank)].get(); }
  uint64_t newest_epoch() const override { return epoch_; }

  void OnIdle(int rank, uint64_t left_epoch) override {
    if (left_epoch != 0 && left_epoch < epoch_) return;
    world_.After(world_.chance.Between(0, kNewsUs), [this] { RequestEpoch(); });
  }
  void OnStep(int rank, uint64_t step) override { finished_[static_cast<size_t>(rank)] = step; }
  bool IsOver(uint64_t step) override {
    newest_step_ = std::max(newest_step_, step);
    // No rank has begun a later step.
    if (faults_over_ && last_step_ == 0) last_step_ = newest_step_ + 1;
    return last_step_ != 0 && step > last_step_;
  }
  bool faults_over() const override { return faults_over_; }
  int64_t PauseOf(int rank) override {
    if (std::exchange(wedged_[static_cast<size_t>(rank)], char{0}) != 0) {
      return kWedgeDeadlines * MicrosOf(plan_.deadline);
    }
    return world_.chance.Between(0, plan_.compute_us);
  }

 private:
  // ---- the chief

  bool finished() const {
    return last_step_ != 0 && std::all_of(finished_.begin(), finished_.end(),
                                          [this](uint64_t step) { return step >= last_step_; });
  }

  void RequestEpoch() {
    if (std::exchange(requested_, true)) return;
    world_.After(world_.chance.Between(1'000, 50'000), [this] { AnnounceEpoch(); });
  }

  void AnnounceEpoch() {
    requested_ = false;
    if (finished() || over_) return;
    EpochAnnouncement announcement;
    for (const auto& node : nodes_) {
      if (!node->alive()) return;  // its next process asks again
      announcement.incarnations.push_back(node->incarnation());
    }
    announcement.epoch = ++epoch_;
    announcement.first_step = *std::min_element(finished_.begin(), finished_.end()) + 1;
    announcement.step_try = epoch_ % 3 + 1;
    ++ledger_.statistics.epochs;
    world_.Trace("chief: epoch {} begins with step {}", epoch_, announcement.first_step);
    for (const auto& node : nodes_) {
      node->After(world_.chance.Between(0, kNewsUs), [n = node.get(), announcement] {
        static_cast<RankLife*>(n->life())->OnAnnouncement(announcement);
      });
    }
  }

  // Starts a process again when it has ended.
  void Supervise(Node* node) {
    if (over_) return;
    const int64_t us = world_.chance.Between(1'000, plan_.restart_us);
    ledger_.Disturbed(node->task().index, world_.now_us(), world_.now_us() + us);
    world_.After(us, [node] { node->Start(); });
  }

  void TellWhere() {
    ledger_.Violate("the ranks have not finished {} s after the faults ({} events)",
                    kPatienceUs / 1'000'000, world_.events);
    for (const auto& node : nodes_) {
      const std::string doing = node->alive() ? node->life()->Text() : "is dead";
      world_.Trace("{}: {}", node->name(), doing);
      ledger_.Violate("{}: {}", node->name(), doing);
    }
  }

  // ---- faults

  void StartFaults() {
    faults_until_us_ = world_.now_us() + plan_.faults_for_us;
    world_.At(faults_until_us_, [this] {
      world_.Trace("the faults are over");
      faults_over_ = true;
    });
    if (plan_.faults.total() > 0) NextFault();
  }

  // The times between two are distributed exponentially.
  void NextFault() {
    const auto gap = static_cast<int64_t>(world_.chance.Exponential() / plan_.faults.total() * 1e6);
    if (world_.now_us() + gap >= faults_until_us_) return;
    world_.After(gap, [this] {
      Strike();
      NextFault();
    });
  }

  Node* Any() { return nodes_[world_.chance.Below(nodes_.size())].get(); }

  void Strike() {
    Chance& chance = world_.chance;
    Node* const node = Any();
    const int rank = node->task().index;
    const CollectiveFaultRates& rates = plan_.faults;
    double at = static_cast<double>(chance.Below(1'000'000)) / 1'000'000 * rates.total();
    const auto is = [&at](double rate) { return (at -= rate) < 0; };
    if (!node->alive()) return;
    if (is(rates.kill)) {
      ++ledger_.statistics.killed;
      node->Kill();
    } else if (is(rates.break_stream)) {
      DisturbAll();  // any stream of the rank
      network_.BreakOne(node);
    } else if (is(rates.lose_message)) {
      network_.LoseNext();
      DisturbAll();
    } else if (is(rates.cut_network)) {
      CutFrom(node);
    } else if (is(rates.freeze)) {
      ++ledger_.statistics.frozen;
      const int64_t us = chance.Between(10'000, chance.Percent(50) ? 400'000 : 3'000'000);
      const int64_t begin_us = std::max(world_.now_us(), node->frozen_until_us());
      if (world_.now_us() + us > begin_us) ledger_.Away(rank, begin_us, world_.now_us() + us);
      node->Freeze(us);
    } else if (is(rates.wedge)) {
      ++ledger_.statistics.wedged;
      wedged_[static_cast<size_t>(rank)] = 1;
    }
  }

  // Nobody knows which stream breaks.
  void DisturbAll() {
    for (int rank = 0; rank < plan_.ranks; ++rank) {
      ledger_.Disturbed(rank, world_.now_us(), world_.now_us());
    }
  }

  void CutFrom(Node* a) {
    Node* const b = Any();
    if (a == b) return;
    const int64_t us = world_.chance.Between(1'000, world_.chance.Percent(50) ? 50'000 : 1'500'000);
    const int64_t until_us = world_.now_us() + us;
    for (const Node* node : {a, b}) {
      ledger_.Disturbed(node->task().index, world_.now_us(), until_us);
    }
    network_.Cut(a, b, until_us);
  }

  const CollectivePlan plan_;
  World world_;
  Network network_;
  CollectiveLedger ledger_;
  std::vector<std::unique_ptr<Node>> nodes_;  // by rank
  std::vector<uint64_t> finished_;            // by rank: the last step of which it has all results
  std::vector<char> wedged_;                  // by rank
  uint64_t epoch_ = 0;
  uint64_t newest_step_ = 0;
  uint64_t last_step_ = 0;  // 0: not known yet
  int64_t faults_until_us_ = 0;
  bool requested_ = false;  // an epoch
  bool faults_over_ = false;
  bool over_ = false;
};

}  // namespace

CollectiveOutcome RunSeed(uint64_t seed, const TraceLine& trace, CollectiveBug bug) {
  return CollectiveSimulation(seed, trace, bug).Run();
}

}  // namespace cohort::simulator
