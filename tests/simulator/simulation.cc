#include "tests/simulator/simulation.h"

#include <algorithm>

#include "common/data/dataset.h"
#include "tests/simulator/cluster.h"
#include "tests/simulator/faults.h"
#include "tests/simulator/joiners.h"

namespace cohort::simulator {
namespace {

// The virtual time that a job may take after the faults, and the events of one run. A run that
// exceeds these limits, which are far more than any run needs, waits for an event that never comes.
constexpr int64_t kPatienceUs = 120'000'000;
constexpr uint64_t kMostEvents = 2'000'000;
constexpr int64_t kAwayUs = 1'500'000;  // the longest time, see Supervise

class Simulation {
 public:
  Simulation(uint64_t seed, std::function<void(const std::string&)> trace, PlantedBug bug)
      : plan_(seed, bug),
        world_(seed),
        cluster_(plan_, &world_),
        joiners_(&cluster_),
        faults_(&cluster_) {
    world_.trace = std::move(trace);
  }

  Outcome Run() {
    world_.Trace("{}", plan_.Text());
    StartAll();
    faults_.Start();
    const int64_t patience_us = plan_.network.bytes_per_second > 0 ? 2 * kPatienceUs : kPatienceUs;
    const int64_t until = world_.now_us() + plan_.faults_for_us + patience_us;
    while (!cluster_.finished && world_.events < kMostEvents && world_.Step(until)) {
    }
    if (!cluster_.finished) {
      cluster_.ledger.Violate("the job was not finished {} s after the faults ({} events)",
                              (world_.now_us() - until + patience_us) / 1'000'000, world_.events);
      TellWhere();
    }
    CheckWeights();
    return Finish();
  }

 private:
  void StartAll() {
    const auto make = [this](Task task, auto start) {
      auto node = std::make_unique<Node>(&world_, task,
                                         [this, start](Node* n) { return start(&cluster_, n); });
      node->on_end = [this](Node* n) { Supervise(n); };
      return node;
    };
    cluster_.chief = make({Role::kChief, 0}, &StartChief);
    for (int i = 0; i < plan_.ps + plan_.added_ps; ++i) {
      cluster_.ps.push_back(make(PsTask(i), &StartPs));
    }
    for (int i = 0; i < plan_.workers + plan_.joiners; ++i) {
      cluster_.workers.push_back(make(WorkerTask(i), &StartWorker));
    }
    // In any order.
    world_.After(world_.chance.Between(0, 50'000), [this] { cluster_.chief->Start(); });
    for (const auto* nodes : {&cluster_.ps, &cluster_.workers}) {
      for (const auto& node : *nodes) {
        world_.After(world_.chance.Between(0, 50'000), [this, n = node.get()] { Start(n); });
      }
    }
  }

  bool named(const Node& node) const {
    const Task task = node.task();
    return task.role == Role::kChief ||
           task.index < (task.role == Role::kWorker ? plan_.workers : plan_.ps);
  }

  void Start(Node* node) {
    const bool joins = node->task().role == Role::kWorker && !named(*node);
    joins ? joiners_.Start(node) : node->Start();
  }

  // Starts a process again when it has ended, as systemd or Kubernetes does. One that TF_CONFIG
  // does not name is sometimes away for longer than the chief keeps its place.
  void Supervise(Node* node) {
    int64_t us = world_.chance.Between(1'000, plan_.restart_us);
    if (!named(*node) && world_.chance.Percent(30)) us += world_.chance.Between(0, kAwayUs);
    world_.After(us, [this, node] { Start(node); });
  }

  // Reports what each task is waiting for, in a run that does not end.
  void TellWhere() {
    const auto tell = [this](Node* node) {
      world_.Trace("{}: {}", node->name(), node->alive() ? node->life()->Text() : "is dead");
    };
    tell(cluster_.chief.get());
    for (const auto& node : cluster_.ps) tell(node.get());
    for (const auto& node : cluster_.workers) tell(node.get());
  }

  // With SGD of rate one, each weight is minus the number of times that its example was used. In a
  // synchronous step with m members an example counts unit() / m, in every shard.
  void CheckWeights() {
    if (!cluster_.finished) return;
    const std::string path = cluster_.disk.Newest();
    const std::vector<double> wanted = WantedWeights(cluster_.steps.SharesIn(path));
    for (const char* name : {kSeen, kTable}) {
      const std::vector<float> values = cluster_.disk.ReadVariable(path, name);
      if (values.empty()) cluster_.ledger.Violate("{}: {} is not in it", path, name);
      for (size_t i = 0; i < values.size(); ++i) {
        const size_t example = i % plan_.examples;
        if (values[i] == wanted[example]) continue;
        cluster_.ledger.Violate("{}[{}, {}]: the example was used {} times in {} epochs, not {}",
                                name, i / plan_.examples, example, -values[i] / plan_.unit(),
                                plan_.epochs, -wanted[example] / plan_.unit());
        break;
      }
    }
    for (const float value : cluster_.disk.ReadVariable(path, kIdle)) {
      if (value != 0) return cluster_.ledger.Violate("{} was changed to {}", kIdle, value);
    }
  }

  // The weight of each example, if its places have these shares of their updates.
  std::vector<double> WantedWeights(const std::vector<double>& shares) const {
    const EpochOrder order(plan_.examples, 0, /*shuffle=*/true, plan_.seed);
    const JobSchedule schedule = plan_.Schedule();
    std::vector<double> weights(plan_.examples);
    std::vector<uint64_t> records;
    for (uint64_t place = 0; place < shares.size(); ++place) {
      const LeaseRange lease = schedule.LeasesAt(place, 1).front();
      order.Records(lease.epoch, lease.begin, lease.end, &records);
      for (const uint64_t record : records) weights[record] -= plan_.unit() * shares[place];
    }
    return weights;
  }

  void CountMode() {
    Statistics& s = cluster_.ledger.statistics;
    s.sync_runs = plan_.mode == PlanMode::kSync ? 1 : 0;
    s.drop_runs = plan_.mode == PlanMode::kDrop ? 1 : 0;
    s.replicated_runs = plan_.replicas ? 1 : 0;
    s.speculative_runs = plan_.mode == PlanMode::kSpeculative ? 1 : 0;
    s.bounded_runs = plan_.mode == PlanMode::kBounded ? 1 : 0;
    s.changing_runs = plan_.changes_mode() ? 1 : 0;
  }

  Outcome Finish() {
    // A server that hands a tablet over while it closes a step may not log what its other tablets
    // have applied. CheckWeights sees whether they have.
    const bool logs_all = plan_.moves == 0 || (!plan_.sync() && !plan_.changes_mode());
    const ApplyReport report =
        CheckApplyEvents(cluster_.ledger.events, cluster_.finished && logs_all);
    for (const std::string& violation : report.violations) cluster_.ledger.Violate("{}", violation);
    // The shutdown of the processes is a part of the run too.
    cluster_.chief.reset();
    cluster_.workers.clear();
    cluster_.ps.clear();
    Statistics& statistics = cluster_.ledger.statistics;
    statistics.runs = 1;
    CountMode();
    statistics.events = world_.events;
    statistics.network = cluster_.network.counts;
    statistics.Add(report);
    return {std::move(cluster_.ledger.violations), statistics, plan_.Text()};
  }

  const Plan plan_;
  World world_;
  Cluster cluster_;
  Joiners joiners_;
  Faults faults_;
};

}  // namespace

std::unique_ptr<Logger> Cluster::MakeLog(const Node& node) {
  if (!world->trace) return Logger::Discard();
  LogOptions options;
  options.to_stderr = false;
  options.role = node.name();
  options.sink = [w = world, name = node.name()](std::string_view line) {
    // Without the time and level in front: the trace has its own.
    const size_t at = line.find(' ', line.find(' ') + 1);
    w->Trace("{}: {}", name, line.substr(std::min(at + 1, line.size())));
  };
  auto log = Logger::Create(options);
  return log.ok() ? *std::move(log) : Logger::Discard();
}

Outcome RunSeed(uint64_t seed, const TraceLine& trace, PlantedBug bug) {
  return Simulation(seed, trace, bug).Run();
}

}  // namespace cohort::simulator
