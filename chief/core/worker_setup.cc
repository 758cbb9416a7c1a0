#include "chief/core/worker_setup.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"

namespace cohort {

WorkerSetup::WorkerSetup(const CoreContext* context, Outbox* outbox, Settlement* settlement)
    : context_(context),
      outbox_(outbox),
      settlement_(settlement),
      workers_(context->options.workers.size()) {}

int WorkerSetup::Add(std::vector<Named>* all, Named named, const v1::ChiefToWorker& message) {
  for (size_t i = 0; i < all->size(); ++i) {
    if ((*all)[i].name == named.name) return static_cast<int>(i);
  }
  named.message = std::make_shared<const std::string>(message.SerializeAsString());
  all->push_back(std::move(named));
  for (size_t i = 0; i < workers_.size(); ++i) SendMissing(static_cast<int>(i));
  return static_cast<int>(all->size()) - 1;
}

int WorkerSetup::AddProgram(std::string fingerprint, v1::Program program) {
  v1::ChiefToWorker message;
  message.mutable_program()->set_fingerprint(fingerprint);
  *message.mutable_program()->mutable_program() = std::move(program);
  return Add(&programs_, {.name = std::move(fingerprint)}, message);
}

int WorkerSetup::AddResource(v1::CreateResource resource) {
  Named named{.name = resource.name(),
              .independent = resource.visitation() == v1::INDEPENDENT,
              .message = nullptr};
  v1::ChiefToWorker message;
  *message.mutable_resource() = std::move(resource);
  return Add(&resources_, std::move(named), message);
}

absl::Status WorkerSetup::CheckSpec(const ClosureSpec& spec) const {
  if (spec.step.program < 0 || static_cast<size_t>(spec.step.program) >= programs_.size()) {
    return InvalidArgument("a closure names program {}, which is not registered",
                           spec.step.program);
  }
  if (spec.dataset.resource >= static_cast<int>(resources_.size())) {
    return InvalidArgument("a closure names resource {}, which was not created",
                           spec.dataset.resource);
  }
  if (spec.steps == 0) return InvalidArgument("a closure needs at least one step");
  return absl::OkStatus();
}

void WorkerSetup::OnHello(int worker, v1::WorkerHello hello) {
  state(worker).hello = std::move(hello);
}

void WorkerSetup::OnResults(int worker, v1::Results* results) {
  v1::WorkerHello& hello = state(worker).hello;
  for (v1::ClosureResult& result : *results->mutable_results()) {
    // The worker no longer holds the closures that it has reported.
    auto* const in_hand = hello.mutable_in_hand();
    in_hand->erase(std::remove_if(in_hand->begin(), in_hand->end(),
                                  [&](const v1::ClosureAttempt& hand) {
                                    return hand.id() == result.id() &&
                                           hand.attempt() <= result.attempt();
                                  }),
                   in_hand->end());
    *hello.add_results() = std::move(result);
  }
  hello.mutable_readers()->MergeFrom(results->readers());
}

v1::WorkerHello WorkerSetup::Begin(int worker) {
  Worker& w = state(worker);
  v1::WorkerHello hello = std::exchange(w.hello, v1::WorkerHello());
  w.opening.clear();
  ++changes_;
  w.programs = {hello.programs().begin(), hello.programs().end()};
  w.resources = {hello.resources().begin(), hello.resources().end()};
  for (const v1::ReaderPosition& reader : hello.readers()) {
    if (reader.timeline() != context_->timeline) w.resources.erase(reader.resource());
  }
  MoveReaders(worker, hello.readers());
  return hello;
}

void WorkerSetup::Finish(int worker) {
  state(worker).ready = true;
  SendMissing(worker);
}

void WorkerSetup::SendMissing(int worker) {
  Worker& w = state(worker);
  if (!w.ready) return;
  ++changes_;
  for (const Named& program : programs_) {
    if (!w.programs.insert(program.name).second) continue;
    requests_.insert(outbox_->AskWorker(worker, v1::ChiefToWorker(), program.message));
  }
  for (const Named& resource : resources_) {
    // A reader belongs to a timeline. Before the first timeline no closure runs.
    if (resource.independent && context_->timeline == 0) continue;
    if (!w.resources.insert(resource.name).second) continue;
    const auto index = static_cast<uint32_t>(worker);
    v1::ChiefToWorker message;
    message.mutable_resource()->set_worker_index(index);
    if (resource.independent) {
      message.mutable_resource()->set_begin(settlement_->readers().Of(resource.name, index));
      message.mutable_resource()->set_timeline(context_->timeline);
    }
    const uint64_t request = outbox_->AskWorker(worker, std::move(message), resource.message);
    requests_.insert(request);
    w.opening[resource.name] = request;
  }
}

bool WorkerSetup::TakeRequest(int worker, uint64_t request) {
  ++changes_;
  std::erase_if(state(worker).opening, [&](const auto& open) { return open.second == request; });
  return requests_.erase(request) > 0;
}

void WorkerSetup::RecreateReaders() {
  for (size_t i = 0; i < workers_.size(); ++i) {
    for (const Named& resource : resources_) {
      if (resource.independent) workers_[i].resources.erase(resource.name);
    }
    SendMissing(static_cast<int>(i));
  }
}

void WorkerSetup::MoveReaders(
    int worker, const google::protobuf::RepeatedPtrField<v1::ReaderPosition>& readers) {
  for (const v1::ReaderPosition& reader : readers) {
    if (reader.timeline() != context_->timeline) continue;
    settlement_->MoveReader(reader.resource(), static_cast<uint32_t>(worker), reader.batches());
  }
}

}  // namespace cohort
