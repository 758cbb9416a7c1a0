#include "chief/core/load_watch.h"

#include <algorithm>

#include "common/base/status.h"

namespace cohort {

void LoadWatch::OnMoved(int server, uint32_t tablet, uint64_t bytes, int64_t now_us) {
  Load& load = loads_[tablet];
  // The count of another server, or of another process, says nothing about this time.
  if (load.server == server && bytes >= load.bytes) {
    load.fresh += static_cast<double>(bytes - load.bytes);
  }
  load.server = server;
  load.bytes = bytes;
  load.reported_us = now_us;
}

std::optional<LoadWatch::Move> LoadWatch::Tick(const std::map<uint32_t, int>& places,
                                               const std::set<int>& servers, int64_t now_us) {
  if (now_us < next_look_us_) return std::nullopt;
  next_look_us_ = now_us + kLookUs;
  for (auto& [tablet, load] : loads_) {
    load.faded = load.faded * kFade + load.fresh;
    load.fresh = 0;
  }
  std::optional<Move> move = Look(places, servers, now_us);
  if (!move.has_value()) {
    Wait();
    return std::nullopt;
  }
  const int busiest = places.at(move->tablet);
  rounds_ = busiest == busiest_ ? rounds_ + 1 : 1;
  busiest_ = busiest;
  if (rounds_ < kRounds) return std::nullopt;
  Wait();
  return move;
}

std::optional<LoadWatch::Move> LoadWatch::Look(const std::map<uint32_t, int>& places,
                                               const std::set<int>& servers, int64_t now_us) {
  std::map<int, double> of_servers;
  for (const int server : servers) of_servers[server] = 0;
  double all = 0;
  for (const auto& [tablet, server] : places) {
    const auto load = loads_.find(tablet);
    const bool known = load != loads_.end() && now_us - load->second.reported_us < kForgetUs;
    if (!known || !servers.contains(server)) return std::nullopt;
    of_servers[server] += load->second.faded;
    all += load->second.faded;
  }
  if (of_servers.size() < 2) return std::nullopt;
  const auto load_of = [](const auto& entry) { return entry.second; };
  const auto [busiest, busy] = *std::ranges::max_element(of_servers, {}, load_of);
  const auto [idlest, idle] = *std::ranges::min_element(of_servers, {}, load_of);
  if (busy * (1 - kFade) < kFloorBytesPerSecond) return std::nullopt;
  std::optional<uint32_t> best;
  double least = busy * (1 - kGain);
  for (const auto& [tablet, server] : places) {
    if (server != busiest) continue;
    const double load = loads_.at(tablet).faded;
    const double after = std::max(busy - load, idle + load);
    if (after >= least) continue;
    least = after;
    best = tablet;
  }
  if (!best.has_value()) return std::nullopt;
  return Move{.tablet = *best,
              .server = idlest,
              .why = fmt::format("tablet {} from ps:{} to ps:{}: of what workers pull and push, "
                                 "ps:{} had {:.0f} %, ps:{} {:.0f} %, and the tablet {:.0f} %",
                                 *best, busiest, idlest, busiest, 100 * busy / all, idlest,
                                 100 * idle / all, 100 * loads_.at(*best).faded / all)};
}

}  // namespace cohort
