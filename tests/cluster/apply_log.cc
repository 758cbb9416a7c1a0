#include "tests/cluster/apply_log.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <set>
#include <tuple>

#include "common/base/status.h"

namespace cohort {
namespace {

constexpr size_t kMostViolations = 20;

// The next word of a line; "" at its end.
std::string_view Word(std::string_view* line) {
  line->remove_prefix(std::min(line->find_first_not_of(' '), line->size()));
  const std::string_view word = line->substr(0, line->find(' '));
  line->remove_prefix(word.size());
  return word;
}

template <typename T>
bool Number(std::string_view* line, T* value) {
  const std::string_view word = Word(line);
  const auto result = std::from_chars(word.data(), word.data() + word.size(), *value);
  return !word.empty() && result.ec == std::errc() && result.ptr == word.data() + word.size();
}

bool ParseLine(std::string_view line, ApplyEvent* event) {
  const bool numbers = Number(&line, &event->closure) && Number(&line, &event->ordinal) &&
                       Number(&line, &event->attempt) && Number(&line, &event->place) &&
                       Number(&line, &event->timeline) && Number(&line, &event->generation) &&
                       Number(&line, &event->tablet);
  if (!numbers) return false;
  event->verdict = std::string(Word(&line));
  return !event->verdict.empty();
}

class Checker {
 public:
  void Add(const ApplyEvent& e) {
    if (e.verdict == "published") {
      published_[e.timeline] = std::max(published_[e.timeline], e.closure);
      return;
    }
    const Id id{e.timeline, e.closure, e.ordinal};
    if (e.verdict == "held" || e.verdict == "replayed") {
      held_[id].insert(e.tablet);
      copied_[id].insert(e.tablet);
      if (e.verdict == "replayed") CheckServer(id, e);
      return;
    }
    attempts_[id].insert(e.attempt);
    tablets_.insert(e.tablet);
    if (e.verdict == "applied") {
      ++report_.applied;
      CheckTimeline(e);
      // A primary that was stopped may hear of its copy when others have its tablets for long.
      if (!copied_[id].contains(e.tablet)) CheckSettled(e);
      applied_[id].emplace(e.tablet, e.attempt);
      CheckServer(id, e);
    } else if (e.verdict == "duplicate" || e.verdict == "settled") {
      ++report_.duplicates_refused;
      // It was applied before, perhaps in the timeline of the restored cut.
      if (e.verdict == "duplicate") held_[id].insert(e.tablet);
      if (e.verdict == "settled") {
        ++report_.settled_refused;
        settled_.emplace(e.timeline, e.closure, e.tablet);
      }
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

  // A copy applies what its primary has applied. It may lack what the primary applied last, and
  // apply that again when it is the primary.
  void CheckServer(const Id& id, const ApplyEvent& e) {
    if (servers_[id].emplace(e.tablet, e.ps).second) return;
    Violate(fmt::format("closure {} ordinal {} was applied twice to tablet {} in timeline {}",
                        e.closure, e.ordinal, e.tablet, e.timeline));
  }

  void CheckTimeline(const ApplyEvent& e) {
    uint64_t& newest = timeline_of_[{e.tablet, e.ps}];
    if (e.timeline < newest) {
      Violate(fmt::format("tablet {} applied closure {} of timeline {} after timeline {}", e.tablet,
                          e.closure, e.timeline, newest));
    }
    newest = e.timeline;
  }

  void CheckSettled(const ApplyEvent& e) {
    const auto published = published_.find(e.timeline);
    if (published != published_.end() && e.closure < published->second) {
      Violate(
          fmt::format("closure {} was applied to tablet {} in timeline {}, which was published "
                      "as settled below {}",
                      e.closure, e.tablet, e.timeline, published->second));
    }
    if (settled_.contains({e.timeline, e.closure, e.tablet})) {
      Violate(
          fmt::format("closure {} was applied to tablet {} in timeline {}, where it was settled",
                      e.closure, e.tablet, e.timeline));
    }
  }

  // A push is partial if an attempt reached only some tablets.
  void CheckSpread(const Id& id, const std::map<uint32_t, uint32_t>& by_tablet,
                   const std::set<uint64_t>& timelines, bool finished) {
    std::set<uint32_t> attempts;
    for (const auto& [tablet, attempt] : by_tablet) attempts.insert(attempt);
    const bool everywhere = by_tablet.size() == tablets_.size();
    if (attempts.size() > 1 || !everywhere) ++report_.partial_pushes;
    if (attempts.size() > 1) ++report_.mixed_closures;
    if (!finished || everywhere || std::get<0>(id) != *timelines.rbegin()) return;
    std::set<uint32_t> held = held_[id];
    for (const auto& [tablet, attempt] : by_tablet) held.insert(tablet);
    if (held.size() == tablets_.size()) return;
    Violate(fmt::format("closure {} ordinal {} was applied to {} of {} tablets", std::get<1>(id),
                        std::get<2>(id), held.size(), tablets_.size()));
  }

  void Violate(std::string what) {
    if (report_.violations.size() < kMostViolations) report_.violations.push_back(std::move(what));
  }

  ApplyReport report_;
  std::map<Id, std::set<uint32_t>> attempts_;
  std::map<Id, std::map<uint32_t, uint32_t>> applied_;        // tablet -> attempt
  std::map<Id, std::set<std::pair<uint32_t, int>>> servers_;  // tablet, server that applied it
  std::map<Id, std::set<uint32_t>> held_;    // tablets that refused it as a duplicate
  std::map<Id, std::set<uint32_t>> copied_;  // tablets whose copies have it
  std::map<std::pair<uint32_t, int>, uint64_t> timeline_of_;  // tablet, server
  std::set<uint32_t> tablets_;
  std::map<uint64_t, uint64_t> published_;                      // by timeline
  std::set<std::tuple<uint64_t, uint64_t, uint32_t>> settled_;  // timeline, closure, tablet
};

}  // namespace

absl::Status ParseApplyLines(std::string_view lines, int ps, std::vector<ApplyEvent>* events) {
  for (int number = 1; !lines.empty(); ++number) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(line.size() + 1, lines.size()));
    if (line.empty() || line[0] == '#') continue;
    ApplyEvent event{.ps = ps};
    if (!ParseLine(line, &event)) return DataLoss("line {}: not an apply record: {}", number, line);
    events->push_back(std::move(event));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ApplyEvent>> ReadApplyLogs(const std::vector<std::string>& files) {
  std::vector<ApplyEvent> events;
  for (size_t ps = 0; ps < files.size(); ++ps) {
    std::ifstream in(files[ps], std::ios::binary);
    if (!in) return NotFound("{}: no such apply log", files[ps]);
    std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    text.resize(text.rfind('\n') + 1);  // a last line without an end is torn, or not written yet
    COHORT_RETURN_IF_ERROR(
        Annotate(ParseApplyLines(text, static_cast<int>(ps), &events), files[ps]));
  }
  return events;
}

ApplyReport CheckApplyEvents(const std::vector<ApplyEvent>& events, bool finished) {
  Checker checker;
  for (const ApplyEvent& e : events) checker.Add(e);
  return checker.Finish(finished);
}

}  // namespace cohort
