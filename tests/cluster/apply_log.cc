#include "tests/cluster/apply_log.h"

#include <fstream>
#include <set>
#include <sstream>
#include <tuple>

#include "common/base/status.h"

namespace cohort {
namespace {

constexpr size_t kMostViolations = 20;

bool ParseLine(const std::string& line, ApplyEvent* event) {
  std::istringstream in(line);
  return static_cast<bool>(in >> event->closure >> event->ordinal >> event->attempt >>
                           event->place >> event->timeline >> event->generation >> event->tablet >>
                           event->verdict);
}

class Checker {
 public:
  void Add(const ApplyEvent& e) {
    const Id id{e.timeline, e.closure, e.ordinal};
    attempts_[id].insert(e.attempt);
    tablets_.insert(e.tablet);
    if (e.verdict == "applied") {
      ++report_.applied;
      CheckTimeline(e);
      if (!applied_[id].emplace(e.tablet, e.attempt).second) {
        Violate(fmt::format("closure {} ordinal {} was applied twice to tablet {} in timeline {}",
                            e.closure, e.ordinal, e.tablet, e.timeline));
      }
    } else if (e.verdict == "duplicate" || e.verdict == "settled") {
      ++report_.duplicates_refused;
    } else if (e.verdict == "fenced") {
      ++report_.fenced;
    }
  }

  ApplyReport Finish(bool finished) {
    std::set<uint64_t> timelines;
    for (const auto& [id, attempts] : attempts_) {
      timelines.insert(std::get<0>(id));
      if (attempts.size() > 1) ++report_.recomputed_closures;
    }
    report_.timelines = timelines.size();
    for (const auto& [id, by_tablet] : applied_) CheckSpread(id, by_tablet, timelines, finished);
    return std::move(report_);
  }

 private:
  using Id = std::tuple<uint64_t, uint64_t, uint32_t>;  // timeline, closure, ordinal

  void CheckTimeline(const ApplyEvent& e) {
    uint64_t& newest = timeline_of_[e.tablet];
    if (e.timeline < newest) {
      Violate(fmt::format("tablet {} applied closure {} of timeline {} after timeline {}", e.tablet,
                          e.closure, e.timeline, newest));
    }
    newest = e.timeline;
  }

  // A push is partial where one attempt reached some tablets, and another one, or none, the rest.
  void CheckSpread(const Id& id, const std::map<uint32_t, uint32_t>& by_tablet,
                   const std::set<uint64_t>& timelines, bool finished) {
    std::set<uint32_t> attempts;
    for (const auto& [tablet, attempt] : by_tablet) attempts.insert(attempt);
    const bool everywhere = by_tablet.size() == tablets_.size();
    if (attempts.size() > 1 || !everywhere) ++report_.partial_pushes;
    if (finished && !everywhere && std::get<0>(id) == *timelines.rbegin()) {
      Violate(fmt::format("closure {} ordinal {} was applied to {} of {} tablets", std::get<1>(id),
                          std::get<2>(id), by_tablet.size(), tablets_.size()));
    }
  }

  void Violate(std::string what) {
    if (report_.violations.size() < kMostViolations) report_.violations.push_back(std::move(what));
  }

  ApplyReport report_;
  std::map<Id, std::set<uint32_t>> attempts_;
  std::map<Id, std::map<uint32_t, uint32_t>> applied_;  // tablet -> attempt
  std::map<uint32_t, uint64_t> timeline_of_;
  std::set<uint32_t> tablets_;
};

}  // namespace

absl::StatusOr<std::vector<ApplyEvent>> ReadApplyLogs(const std::vector<std::string>& files) {
  std::vector<ApplyEvent> events;
  for (size_t ps = 0; ps < files.size(); ++ps) {
    std::ifstream in(files[ps]);
    if (!in) return NotFound("{}: no such apply log", files[ps]);
    int number = 0;
    for (std::string line; std::getline(in, line);) {
      ++number;
      if (line.empty() || line[0] == '#') continue;
      ApplyEvent event{.ps = static_cast<int>(ps)};
      if (!ParseLine(line, &event))
        return DataLoss("{}:{}: not an apply record: {}", files[ps], number, line);
      events.push_back(std::move(event));
    }
  }
  return events;
}

ApplyReport CheckApplyEvents(const std::vector<ApplyEvent>& events, bool finished) {
  Checker checker;
  for (const ApplyEvent& e : events) checker.Add(e);
  return checker.Finish(finished);
}

}  // namespace cohort
