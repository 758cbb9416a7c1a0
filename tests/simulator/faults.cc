#include "tests/simulator/faults.h"

#include <iterator>
#include <string_view>
#include <vector>

#include "common/base/crash_point.h"

namespace cohort::simulator {
namespace {

// Armed for a hit that never comes.
constexpr char kDisarmed[] = "chief.result.folded:9000000000000000000";

Statistics* counted = nullptr;  // the running simulation's: a crash point has no object

void DieHere(std::string_view) {
  ++counted->crash_points;
  throw CrashPointHit();
}

}  // namespace

Faults::Faults(Cluster* cluster)
    : cluster_(cluster), world_(cluster->world), rates_(cluster->plan.faults) {
  total_ = rates_.kill_worker + rates_.kill_ps + rates_.kill_chief + rates_.break_stream +
           rates_.lose_message + rates_.cut_network + rates_.freeze + rates_.wedge +
           rates_.crash_point;
  until_us_ = world_->now_us() + cluster->plan.faults_for_us;
  counted = &cluster->ledger.statistics;
  WatchCrashPoints(&DieHere);
  (void)ArmCrashPoint(kDisarmed);
}

Faults::~Faults() { (void)ArmCrashPoint(kDisarmed); }

void Faults::Start() {
  world_->At(until_us_, [this] {
    world_->Trace("the faults are over");
    (void)ArmCrashPoint(kDisarmed);
    cluster_->faults_over = true;
  });
  if (total_ > 0) Next();
}

// The times between two are distributed exponentially.
void Faults::Next() {
  const auto gap = static_cast<int64_t>(world_->chance.Exponential() / total_ * 1e6);
  if (world_->now_us() + gap >= until_us_) return;
  world_->After(gap, [this] {
    Strike();
    Next();
  });
}

Node* Faults::Any() {
  const uint64_t n = world_->chance.Below(1 + cluster_->ps.size() + cluster_->workers.size());
  if (n == 0) return cluster_->chief.get();
  if (n <= cluster_->ps.size()) return cluster_->ps[n - 1].get();
  return cluster_->workers[n - 1 - cluster_->ps.size()].get();
}

void Faults::Strike() {
  Statistics& s = cluster_->ledger.statistics;
  Chance& chance = world_->chance;
  double at = static_cast<double>(chance.Below(1'000'000)) / 1'000'000 * total_;
  const auto is = [&at](double rate) { return (at -= rate) < 0; };
  if (is(rates_.kill_worker)) {
    Kill(cluster_->workers[chance.Below(cluster_->workers.size())].get(), &s.workers_killed);
  } else if (is(rates_.kill_ps)) {
    Kill(cluster_->ps[chance.Below(cluster_->ps.size())].get(), &s.ps_killed);
  } else if (is(rates_.kill_chief)) {
    KillChief();
  } else if (is(rates_.break_stream)) {
    Node* const node = Any();
    if (node->alive()) cluster_->network.BreakOne(node);
  } else if (is(rates_.lose_message)) {
    cluster_->network.LoseNext();
  } else if (is(rates_.wedge)) {
    Wedge();
  } else if (is(rates_.cut_network)) {
    CutNetwork();
  } else if (is(rates_.freeze)) {
    Node* const node = Any();
    if (!node->alive()) return;
    ++s.frozen;
    node->Freeze(chance.Between(10'000, 1'000'000));
  } else if (is(rates_.crash_point)) {
    ArmCrashPointOfAny();
  }
}

void Faults::Kill(Node* node, uint64_t* count) {
  if (!node->alive() || node->retired()) return;
  ++*count;
  node->Kill();
  if (!world_->chance.Percent(rates_.kill_two_percent)) return;
  Node* const other = Any();
  if (!other->alive() || other->retired()) return;
  ++cluster_->ledger.statistics.double_kills;
  other->Kill();
}

void Faults::KillChief() {
  Node* const chief = cluster_->chief.get();
  if (!chief->alive() || chief->retired()) return;
  Kill(chief, &cluster_->ledger.statistics.chiefs_killed);
  if (!world_->chance.Percent(rates_.empty_directory_percent)) return;
  world_->Trace("the checkpoint directory is emptied");
  ++cluster_->ledger.statistics.directories_emptied;
  cluster_->disk.Empty();
}

// Wedges at most all workers except one, which must do the work.
void Faults::Wedge() {
  size_t wedged = 0;
  const auto workers = static_cast<size_t>(cluster_->plan.workers);  // others may leave
  for (size_t i = 0; i < workers; ++i) wedged += cluster_->workers[i]->wedged() ? 1 : 0;
  Node* const node = cluster_->workers[world_->chance.Below(workers)].get();
  if (!node->alive() || node->wedged() || wedged + 1 >= workers) return;
  world_->Trace("the next step of {} never ends", node->name());
  ++cluster_->ledger.statistics.wedged;
  node->Wedge();
}

void Faults::CutNetwork() {
  Node* const a = Any();
  Node* const b = Any();
  if (a == b) return;
  const int64_t us = world_->chance.Between(1'000, world_->chance.Percent(50) ? 50'000 : 1'500'000);
  const bool one_way = rates_.one_way_percent > 0 && world_->chance.Percent(rates_.one_way_percent);
  cluster_->network.Cut(a, b, world_->now_us() + us, one_way);
}

void Faults::ArmCrashPointOfAny() {
  // Without the point of learning rates that are set, which no simulated job does.
  static const std::vector<std::string_view> points = [] {
    std::vector<std::string_view> all(std::begin(kCrashPoints), std::end(kCrashPoints));
    std::erase(all, "chief.rate.journaled");
    return all;
  }();
  std::string_view name;
  do {
    name = points[world_->chance.Below(points.size())];
  } while (name.starts_with("replica."));  // the simulated cluster has none
  const std::string point = fmt::format("{}:{}", name, world_->chance.Between(1, 12));
  world_->Trace("crash point {} is armed", point);
  (void)ArmCrashPoint(point);
}

}  // namespace cohort::simulator
