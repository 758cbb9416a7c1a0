#include "ps_server/copies/copies.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/base/status_proto.h"

namespace cohort {

std::shared_ptr<CopyLog> Copies::LogFor(const v1::TabletHome& home, uint64_t timeline) {
  if (env_.transport == nullptr) return nullptr;
  MutexLock lock(&mu_);
  for (const auto& [stream, link] : links_) {
    const bool same = link->log->tablet() == home.tablet() && link->log->term() == home.term() &&
                      link->log->timeline() == timeline && !link->log->ended() &&
                      link->to.incarnation() == home.copy_route().incarnation();
    if (same) return link->log;
  }
  auto link = std::make_shared<Link>();
  link->to = home.copy_route();
  link->log = std::make_shared<CopyLog>(home.tablet(), timeline, home.term(), home.filling(),
                                        CopyLog::Options{.pool = env_.pool,
                                                         .fill_rate = &fill_rate_,
                                                         .ended = env_.ended,
                                                         .complete = env_.complete,
                                                         .faults = options_.faults});
  link->tried = link->moved = env_.clock->Now();
  const uint64_t stream = next_++;
  links_[stream] = link;
  env_.transport->Open(stream, link->to);
  return link->log;
}

void Copies::Keep(const std::vector<std::shared_ptr<CopyLog>>& logs) {
  std::map<uint64_t, std::shared_ptr<Link>> ended;
  {
    MutexLock lock(&mu_);
    for (auto it = links_.begin(); it != links_.end();) {
      const bool kept = std::ranges::find(logs, it->second->log) != logs.end();
      const auto link = it++;
      if (!kept) ended.insert(links_.extract(link));
    }
  }
  for (const auto& [stream, link] : ended) {
    env_.transport->Close(stream);
    link->log->Void();
  }
}

std::shared_ptr<Copies::Link> Copies::Find(uint64_t stream) const {
  MutexLock lock(&mu_);
  const auto it = links_.find(stream);
  return it == links_.end() ? nullptr : it->second;
}

void Copies::OnOpen(uint64_t stream) {
  const std::shared_ptr<Link> link = Find(stream);
  if (link == nullptr) return;
  {
    MutexLock lock(&mu_);
    link->open = true;
  }
  link->log->OnOpen(std::make_shared<Sink>(env_.transport, stream));
}

void Copies::OnClosed(uint64_t stream, const absl::Status& why) {
  const std::shared_ptr<Link> link = Find(stream);
  if (link == nullptr) return;
  link->log->OnClosed();
  MutexLock lock(&mu_);
  link->open = false;
  link->why = std::string(why.message());
  if (link->log->is_partial()) Lose(link.get(), why);
}

void Copies::OnAck(uint64_t stream, const v1::CopyAck& ack) {
  const std::shared_ptr<Link> link = Find(stream);
  if (link == nullptr) return;
  const absl::Status failed = StatusFromProto(ack.error());
  {
    MutexLock lock(&mu_);
    link->moved = env_.clock->Now();
    if (!failed.ok()) Lose(link.get(), failed);
  }
  if (!failed.ok()) return;
  link->log->OnAck(ack.number(), ack.state());
  env_.acknowledged();
}

void Copies::Flush(uint64_t stream) {
  if (const std::shared_ptr<Link> link = Find(stream)) link->log->Flush();
}

void Copies::Lose(Link* link, const absl::Status& why) {
  if (std::exchange(link->told, true)) return;
  env_.lost(*link->log, why);
}

void Copies::Tick() {
  struct Again {
    uint64_t ended = 0;
    uint64_t begun = 0;
    v1::PsRoute to;
  };
  std::vector<Again> again;
  std::vector<std::shared_ptr<CopyLog>> logs;
  {
    MutexLock lock(&mu_);
    const TimePoint now = env_.clock->Now();
    for (const auto& [stream, link] : links_) {
      logs.push_back(link->log);
      if (link->log->idle() && link->open) {
        link->moved = now;
        link->told = false;
      }
      if (now - link->moved >= options_.patience) {
        // Said again, because the chief may be another one meanwhile.
        link->moved = now;
        link->told = false;
        Lose(link.get(), Unavailable("{} acknowledges nothing: {}", link->to.address(),
                                     link->open ? "its stream is open" : link->why));
      }
      if (link->open || now - link->tried < options_.retry) continue;
      link->tried = now;
      again.push_back({.ended = stream, .begun = next_++, .to = link->to});
    }
    for (const Again& each : again) {
      auto node = links_.extract(each.ended);
      node.key() = each.begun;
      links_.insert(std::move(node));
    }
  }
  for (const Again& each : again) {
    env_.transport->Close(each.ended);
    env_.transport->Open(each.begun, each.to);
  }
  for (const auto& log : logs) log->Flush();  // the fill rate may have made room
}

size_t Copies::held_bytes() const {
  MutexLock lock(&mu_);
  size_t bytes = 0;
  for (const auto& [stream, link] : links_) bytes += link->log->held_bytes();
  return bytes;
}

}  // namespace cohort
