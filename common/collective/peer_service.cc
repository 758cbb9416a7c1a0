#include "common/collective/peer_service.h"

#include <sstream>
#include <utility>

#include "common/base/status.h"

namespace cohort {

std::string PeerStreamName::ToString() const {
  return fmt::format("{} {} {} {} {} {}", group.generation, group.timeline, group.epoch, rank,
                     incarnation, target);
}

std::optional<PeerStreamName> PeerStreamName::Parse(const std::string& text) {
  PeerStreamName name;
  std::istringstream in(text);
  in >> name.group.generation >> name.group.timeline >> name.group.epoch >> name.rank >>
      name.incarnation >> name.target;
  if (in.fail()) return std::nullopt;
  return name;
}

PeerService::PeerService(bool test_takes_any_group) : state_(std::make_shared<State>()) {
  state_->takes_any_group = test_takes_any_group;
}

StreamServer::Methods PeerService::Methods() const {
  return {{kMethod, [state = state_](std::shared_ptr<Stream> stream, CompletionLoop*) {
             return Accept(state.get(), std::move(stream));
           }}};
}

std::unique_ptr<StreamHandler> PeerService::Accept(State* state, std::shared_ptr<Stream> stream) {
  const auto name = PeerStreamName::Parse(stream->metadata(PeerStreamName::kKey));
  std::shared_ptr<Acceptor> acceptor;
  {
    MutexLock lock(&state->mu);
    const bool fits = name.has_value() && (state->newest == name->group || state->takes_any_group);
    if (fits) acceptor = state->acceptor;
  }
  std::unique_ptr<StreamHandler> handler;
  if (acceptor != nullptr) handler = acceptor->Accept(*name, std::move(stream));
  if (handler == nullptr) state->refused.fetch_add(1, std::memory_order_relaxed);
  return handler;
}

absl::Status PeerService::Open(const GroupId& group, std::shared_ptr<Acceptor> acceptor) {
  MutexLock lock(&state_->mu);
  if (state_->acceptor != nullptr) {
    return FailedPrecondition("the collective group of epoch {} is still open",
                              state_->newest->epoch);
  }
  if (state_->newest.has_value() && group <= *state_->newest) {
    return FailedPrecondition(
        "the collective group (generation {}, timeline {}, epoch {}) is not newer than the last "
        "one "
        "({}, {}, {})",
        group.generation, group.timeline, group.epoch, state_->newest->generation,
        state_->newest->timeline, state_->newest->epoch);
  }
  state_->newest = group;
  state_->acceptor = std::move(acceptor);
  return absl::OkStatus();
}

void PeerService::Close() {
  MutexLock lock(&state_->mu);
  state_->acceptor = nullptr;
}

uint64_t PeerService::refused() const { return state_->refused.load(std::memory_order_relaxed); }

}  // namespace cohort
