#include "tests/simulator/collective_ledger.h"

#include <algorithm>

#include "common/base/status.h"

namespace cohort::simulator {

Counts CollectiveStatistics::AllCounts() {
  return {
      {"runs", &runs},
      {"events", &events},
      {"messages", &network.messages},
      {"ranks killed", &killed},
      {"ranks stopped", &frozen},
      {"ranks wedged", &wedged},
      {"streams broken", &network.breaks},
      {"network cuts", &network.cuts},
      {"lost messages", &network.lost_control},
      {"epochs announced", &epochs},
      {"joins", &groups},
      {"failed starts", &failed_starts},
      {"joins of an old epoch", &old_epochs},
      {"streams refused", &refused_streams},
      {"operations", &operations},
      {"operations late", &late},
      {"operations lost", &lost},
      {"operations given up", &given_up},
      {"early chunks", &early_chunks},
      {"frames dropped", &dropped_frames},
      {"frames read from lent memory", &lent_frames},
  };
}

int64_t CollectiveLedger::TimeIn(const Spans& spans, int64_t from, int64_t to) {
  int64_t all = 0;
  for (const auto& [begin, end] : spans) {
    all += std::max<int64_t>(0, std::min(end, to) - std::max(begin, from));
  }
  return all;
}

int64_t CollectiveLedger::AwayIn(int rank, int64_t from, int64_t to) const {
  return TimeIn(of(rank).away, from, to);
}

int64_t CollectiveLedger::BusyIn(int64_t from, int64_t to) const {
  int64_t all = 0;
  for (const Truth& rank : ranks_) all += TimeIn(rank.busy, from, to);
  return all;
}

void CollectiveLedger::CheckComplete(int rank, uint64_t epoch) {
  for (int other = 0; other < plan_.ranks; ++other) {
    const auto& entered = of(other).entered;
    if (!entered.empty() && entered.rbegin()->first >= epoch) continue;
    Violate("rank {} has started the group of epoch {}, which rank {} has not entered", rank, epoch,
            other);
  }
}

// A rank is missing if it was disturbed shortly before, was away for long, or has left the group.
// One that has not begun what the others wait for may be busy.
bool CollectiveLedger::IsMissing(int rank, uint64_t incarnation, const FailureSeen& seen) const {
  const Truth& truth = of(rank);
  if (truth.incarnation != incarnation) return true;
  const int64_t patience = MicrosOf(seen.name == nullptr ? plan_.start_deadline : plan_.deadline);
  // The one who reports may have been away itself after the group had failed. And a rank that is
  // busy notices late that a stream has broken, and ends the others then.
  const int64_t since = seen.at_us - 8 * patience;
  const int64_t from =
      seen.at_us - 2 * patience - AwayIn(seen.by, since, seen.at_us) - BusyIn(since, seen.at_us);
  const auto disturbed = [&](const auto& span) {
    return span.first <= seen.at_us && span.second >= from;
  };
  if (std::any_of(truth.disturbed.begin(), truth.disturbed.end(), disturbed)) return true;
  const int64_t long_us = patience / 8;
  if (AwayIn(rank, from, seen.at_us) >= long_us) return true;
  const auto entered = truth.entered.find(seen.epoch);
  if (entered == truth.entered.end() || entered->second > seen.at_us - long_us) return true;
  return truth.left.contains(seen.epoch);
}

void CollectiveLedger::CheckFailure(const FailureSeen& seen, const absl::Status& status) {
  const std::string what =
      fmt::format("rank {}, epoch {}{}", seen.by, seen.epoch,
                  seen.name == nullptr ? ", at the start" : ", " + seen.name->ToString());
  if (!absl::IsDeadlineExceeded(status) && !absl::IsUnavailable(status)) {
    return Violate("{}: {}", what, status.ToString());
  }
  const auto failure = GetFailure(status);
  const bool known = failure.has_value() && failure->role == "worker" && failure->index >= 0 &&
                     failure->index < plan_.ranks;
  if (!known) return Violate("{}: the error names no rank: {}", what, status.ToString());
  // A rank on which the others have given up only sees that they close its streams.
  const bool given_up =
      absl::IsUnavailable(status) && IsMissing(seen.by, of(seen.by).incarnation, seen);
  if (!given_up && !IsMissing(failure->index, failure->incarnation, seen)) {
    Violate("{}: it names a rank that is not missing: {}", what, status.ToString());
  }
}

}  // namespace cohort::simulator
