#include "chief/core/servers.h"

#include <algorithm>
#include <set>

#include "chief/core/lost_task.h"
#include "common/base/status.h"
#include "common/cluster/protocol_version.h"

namespace cohort {

void Servers::OnHello(int ps, const v1::PsHello& hello) {
  servers_[static_cast<size_t>(ps)] = {.hello = hello, .term = hello.term()};
}

std::vector<int> Servers::Lost() const {
  return AwayFor(MicrosFromSeconds(context_->options.server_grace_s));
}

std::vector<int> Servers::AwayFor(int64_t us) const {
  std::vector<int> away;
  for (size_t i = 0; i < servers_.size(); ++i) {
    const int64_t since_us = servers_[i].down_since_us;
    if (since_us >= 0 && context_->now_us - since_us >= us) away.push_back(static_cast<int>(i));
  }
  return away;
}

absl::Status Servers::LostError(int ps, const std::string& why) const {
  const Task task = PsTask(ps);
  return LostTask("ps", ps, membership_->member(task).incarnation,
                  fmt::format("{} is lost: {}", TaskName(context_->options, task), why));
}

void Servers::OnAssigned(const v1::Layout& layout, uint64_t term) {
  for (size_t i = 0; i < servers_.size(); ++i) {
    Server& server = servers_[i];
    server.term = term;
    server.hello.set_job(context_->options.job);
    server.hello.set_timeline(context_->timeline);
    server.hello.clear_tablets();
    for (const v1::TabletSpec& tablet : layout.tablets()) {
      if (tablet.ps() == i) server.hello.add_tablets(tablet.tablet());
    }
  }
}

uint64_t Servers::NextTerm(uint64_t era) const {
  uint64_t term = era;
  for (const Server& server : servers_) term = std::max(term, server.term + 1);
  return term;
}

bool Servers::Have(const v1::Layout& layout) const {
  for (size_t i = 0; i < servers_.size(); ++i) {
    const v1::PsHello& hello = servers_[i].hello;
    std::set<uint32_t> wanted;
    for (const v1::TabletSpec& tablet : layout.tablets()) {
      if (tablet.ps() == i) wanted.insert(tablet.tablet());
    }
    if (wanted.empty() && IsPlace(context_->options, PsTask(static_cast<int>(i)))) continue;
    const std::set<uint32_t> has(hello.tablets().begin(), hello.tablets().end());
    if (hello.job() != context_->options.job || hello.timeline() != context_->timeline ||
        has != wanted) {
      return false;
    }
  }
  return true;
}

v1::PsRoute Servers::RouteOf(int ps) const {
  const v1::PsHello& hello = servers_[static_cast<size_t>(ps)].hello;
  v1::PsRoute route;
  route.set_ps(static_cast<uint32_t>(ps));
  route.set_address(context_->options.ps[static_cast<size_t>(ps)]);
  route.set_unix_socket(hello.unix_socket());
  route.set_host_id(hello.host_id());
  route.set_incarnation(hello.incarnation());
  route.set_compact(ProtocolVersion::Of(hello) >= kCompactProtocol);
  route.set_copy_requests(ProtocolVersion::Of(hello) >= kCopyRequestsProtocol);
  return route;
}

std::vector<uint32_t> Servers::SharingMemory() const {
  std::vector<uint32_t> servers;
  for (const Server& server : servers_) {
    servers.push_back(static_cast<uint32_t>(std::ranges::count_if(servers_, [&](const auto& other) {
      return other.hello.host_id() == server.hello.host_id() &&
             other.hello.memory_pool() == server.hello.memory_pool();
    })));
  }
  return servers;
}

void Servers::SendWatermark(int ps, uint64_t watermark) const {
  v1::ChiefToPs message;
  message.mutable_watermark()->set_settled_watermark(watermark);
  outbox_->ToPs(ps, std::move(message));
}

void Servers::PublishWatermark(uint64_t watermark) const {
  for (int i = 0; i < static_cast<int>(servers_.size()); ++i) {
    if (membership_->adopted(PsTask(i))) SendWatermark(i, watermark);
  }
}

}  // namespace cohort
