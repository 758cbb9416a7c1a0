#include "tests/simulator/joiners.h"

#include "common/base/status.h"
#include "tests/simulator/chief_life.h"

namespace cohort::simulator {
namespace {

constexpr int64_t kStayUs = 400'000;  // how long a worker stays, on average

}  // namespace

void Joiners::Start(Node* worker) {
  if (world_->chance.Percent(50)) {
    worker->address = fmt::format("worker{}:{}", worker->task().index, 2 + worker->lives());
  }
  Ask(worker);
}

void Joiners::Ask(Node* worker) {
  if (cluster_->faults_over || worker->retired()) return;
  Node* const chief = cluster_->chief.get();
  absl::StatusOr<Task> place = Unavailable("the chief does not answer");
  if (chief->frozen_until_us() <= world_->now_us() &&
      cluster_->network.ClearAt(worker, chief) <= world_->now_us()) {
    chief->Run([&] {
      place = static_cast<ChiefLife*>(chief->life())->Join(Role::kWorker, worker->address);
    });
  }
  // The answer may be lost.
  if (!place.ok() || world_->chance.Percent(20)) {
    world_->After(world_->chance.Between(1'000, 40'000), [this, worker] { Ask(worker); });
    return;
  }
  worker->number = place->index;
  world_->Trace("{} joins as {}", worker->name(), place->ToString());
  worker->Start();
  LeaveLater(worker);
}

void Joiners::LeaveLater(Node* worker) {
  const double us = world_->chance.Exponential() * kStayUs;
  worker->After(static_cast<int64_t>(us), [this, worker] {
    if (cluster_->faults_over) return;
    world_->Trace("{} gets SIGTERM", worker->name());
    worker->life()->Leave();
  });
}

}  // namespace cohort::simulator
