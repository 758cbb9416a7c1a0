#include "tests/simulator/step_ledger.h"

#include <algorithm>
#include <set>

namespace cohort::simulator {

void StepLedger::Assigned(const v1::AssignTablets& assign) {
  const auto [found, fresh] = timelines_.try_emplace(assign.timeline());
  if (!fresh) return;
  Timeline& timeline = found->second;
  if (const auto from = committed_.find(assign.restore_from()); from != committed_.end()) {
    timeline.steps = from->second;
  }
  timeline.begin = timeline.steps.size();
  if (std::max<uint64_t>(assign.position().open_step(), 1) == timeline.begin + 1) return;
  violate_(fmt::format("timeline {} begins with step {}, and its checkpoint '{}' has {} steps",
                       assign.timeline(), assign.position().open_step(), assign.restore_from(),
                       timeline.begin));
}

void StepLedger::Closed(int ps, const v1::CloseStep& close) {
  Timeline& timeline = timelines_[close.timeline()];
  StepEntry entry{.closures = {},
                  .places = {},
                  .iteration = close.iteration(),
                  .next_place = close.next_place()};
  for (const v1::StepMember& member : close.members()) {
    entry.closures.push_back(member.closure());
    const auto place = places_.find({close.timeline(), member.closure()});
    if (place != places_.end()) {
      entry.places.push_back(place->second);
    } else {
      violate_(fmt::format("step {} of timeline {} was closed with closure {}, which nobody pushed",
                           close.step(), close.timeline(), member.closure()));
    }
  }
  const uint64_t step = close.step();
  for (int other = 0; other < plan_.ps; ++other) {
    const auto newest = timeline.newest.try_emplace(other, timeline.begin).first->second;
    if (newest + 1 >= step && (other != ps || newest + 1 == step)) continue;
    violate_(fmt::format("ps:{} closed step {} of timeline {} when ps:{} had closed {}", ps, step,
                         close.timeline(), other, newest));
  }
  timeline.newest[ps] = step;
  if (step == timeline.steps.size() + 1) return timeline.steps.push_back(std::move(entry));
  if (step <= timeline.steps.size() && timeline.steps[step - 1] == entry) return;
  violate_(fmt::format("ps:{} closed step {} of timeline {} with other members than another server",
                       ps, step, close.timeline()));
}

void StepLedger::Committed(const std::string& manifest, const v1::Manifest& content) {
  const std::vector<StepEntry>& steps = timelines_[content.timeline()].steps;
  const v1::StepPosition& position = content.chief().position();
  const uint64_t closed = std::max<uint64_t>(position.open_step(), 1) - 1;
  const uint64_t place = closed == 0 || closed > steps.size() ? 0 : steps[closed - 1].next_place;
  if (closed > steps.size() || place != position.next_place() || closed != position.iteration()) {
    return violate_(fmt::format(
        "{} is behind {} steps, iteration {}, place {}; of its timeline {} "
        "are closed, up to place {}",
        manifest, closed, position.iteration(), position.next_place(), steps.size(), place));
  }
  std::set<uint64_t> members;
  for (uint64_t i = 0; i < closed; ++i) {
    members.insert(steps[i].closures.begin(), steps[i].closures.end());
  }
  for (const v1::TabletCut& tablet : content.tablets()) {
    for (const v1::UpdateId& id : tablet.applied().applied()) {
      if (members.contains(id.closure())) continue;
      violate_(fmt::format("{}: tablet {} has applied closure {}, which is in none of its steps",
                           manifest, tablet.tablet(), id.closure()));
    }
  }
  committed_[manifest] = {steps.begin(), steps.begin() + static_cast<int64_t>(closed)};
}

void StepLedger::CheckFullStep(size_t step, uint64_t begin, const StepEntry& entry) const {
  const uint64_t size =
      std::min<uint64_t>(plan_.core.closures_per_step, plan_.Schedule().EpochEndOf(begin) - begin);
  std::vector<uint64_t> wanted;
  for (uint64_t i = 0; i < size; ++i) wanted.push_back(begin + i);
  if (entry.places == wanted && entry.next_place == begin + size) return;
  violate_(fmt::format("step {} was closed with the places {} up to {}, not {}", step,
                       fmt::join(entry.places, ","), entry.next_place, fmt::join(wanted, ",")));
}

double StepLedger::CheckHistory(const std::string& manifest) const {
  const auto found = committed_.find(manifest);
  if (found == committed_.end()) {
    violate_(fmt::format("{} was never committed", manifest));
    return 0;
  }
  const JobSchedule schedule = plan_.Schedule();
  std::set<uint64_t> used;
  uint64_t begin = 0;
  double total = 0;
  for (size_t i = 0; i < found->second.size(); ++i) {
    const StepEntry& entry = found->second[i];
    if (plan_.mode != PlanMode::kDrop) {
      CheckFullStep(i + 1, begin, entry);
    } else if (entry.places.empty() || entry.places.size() > plan_.core.replicas_to_aggregate) {
      violate_(fmt::format("step {} was closed with {} members", i + 1, entry.places.size()));
    }
    for (const uint64_t place : entry.places) {
      if (!used.insert(place).second) violate_(fmt::format("place {} was a member twice", place));
      if (place >= entry.next_place) {
        violate_(fmt::format("place {} is a member of step {}, which ends before {}", place, i + 1,
                             entry.next_place));
      }
      const uint64_t at = place % schedule.steps_per_epoch;
      const uint64_t records = std::min(plan_.batch, plan_.examples - at * plan_.batch);
      total +=
          static_cast<double>(records) * plan_.unit() / static_cast<double>(entry.places.size());
    }
    begin = entry.next_place;
  }
  if (begin != schedule.steps()) {
    violate_(fmt::format("the steps end at place {}, not {}", begin, schedule.steps()));
  }
  return total;
}

}  // namespace cohort::simulator
