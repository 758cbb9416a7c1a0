#include "tests/simulator/step_ledger.h"

#include <algorithm>
#include <set>

#include "chief/core/mode_switch.h"

namespace cohort::simulator {

void StepLedger::Assigned(const v1::AssignTablets& assign) {
  const auto [found, fresh] = timelines_.try_emplace(assign.timeline());
  if (!fresh) return;
  Timeline& timeline = found->second;
  if (const auto from = committed_.find(assign.restore_from()); from != committed_.end()) {
    timeline.steps = from->second.steps;
  }
  timeline.begin = timeline.steps.size();
  if (std::max<uint64_t>(assign.position().open_step(), 1) == timeline.begin + 1) return;
  violate_(fmt::format("timeline {} begins with step {}, and its checkpoint '{}' has {} steps",
                       assign.timeline(), assign.position().open_step(), assign.restore_from(),
                       timeline.begin));
}

void StepLedger::Dispatched(const v1::Closure& closure, const ModeSettings& mode) {
  if (!closure.training()) return;
  const auto [found, first] = modes_.try_emplace({closure.timeline(), closure.id()}, mode);
  const bool has_step = closure.step().step() > 0;
  if (found->second == mode && has_step == (mode.mode == ConsistencyMode::kSync)) return;
  violate_(fmt::format("closure {} (place {}) of timeline {} was dispatched in two modes",
                       closure.id(), closure.place(), closure.timeline()));
}

const ModeSettings* StepLedger::ModeOf(const PushHeaderView& push) const {
  const auto found = modes_.find({push.timeline, push.id.closure});
  return found == modes_.end() ? nullptr : &found->second;
}

void StepLedger::Taken(const PushHeaderView& push) {
  if (push.id.closure < settled_[push.timeline]) return;
  Timeline& timeline = timelines_[push.timeline];
  const bool sync = push.step.sync();
  const uint64_t others = sync ? timeline.applied_end : timeline.staged_end;
  if (others > push.place) {
    violate_(fmt::format("timeline {}: place {} {} a step came after place {}, of the other mode",
                         push.timeline, push.place, sync ? "of" : "without", others - 1));
  }
  uint64_t& end = sync ? timeline.staged_end : timeline.applied_end;
  end = std::max(end, push.place + 1);
}

void StepLedger::AskedToClose(const v1::CloseStep& close, const ModeSettings& mode,
                              bool changes_mode) {
  asked_.try_emplace({close.timeline(), close.step()}, mode, changes_mode);
}

void StepLedger::Closed(int ps, const v1::CloseStep& close) {
  Timeline& timeline = timelines_[close.timeline()];
  const auto& [mode, may_be_short] = asked_[{close.timeline(), close.step()}];
  StepEntry entry{.closures = {},
                  .places = {},
                  .iteration = close.iteration(),
                  .next_place = close.next_place(),
                  .mode = mode,
                  .may_be_short = may_be_short};
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
  for (int other = 0; other < plan_.ps + plan_.added_ps; ++other) {
    const auto newest = timeline.newest.try_emplace(other, timeline.begin).first->second;
    if (newest + 1 >= step && (other != ps || newest + 1 == step)) continue;
    // It may have lost its tablets to another server, or got some after that.
    if ((plan_.replicas || plan_.moves > 0) && (other != ps || newest < step)) continue;
    violate_(fmt::format("ps:{} closed step {} of timeline {} when ps:{} had closed {}", ps, step,
                         close.timeline(), other, newest));
  }
  timeline.newest[ps] = step;
  if (step == timeline.steps.size() + 1) return timeline.steps.push_back(std::move(entry));
  if (step <= timeline.steps.size() && timeline.steps[step - 1] == entry) return;
  violate_(fmt::format("ps:{} closed step {} of timeline {} with other members than another server",
                       ps, step, close.timeline()));
}

StepLedger::Boundary StepLedger::Behind(const std::vector<StepEntry>& steps) {
  if (steps.empty()) return {};
  return {.iteration = steps.back().iteration + 1, .next_place = steps.back().next_place};
}

void StepLedger::Committed(const std::string& manifest, const v1::Manifest& content) {
  std::vector<StepEntry> steps = timelines_[content.timeline()].steps;
  const v1::StepPosition position = PositionOf(content.chief());
  const uint64_t closed = position.open_step() - 1;
  const bool known = closed <= steps.size();
  if (known) steps.resize(closed);
  const Boundary last = Behind(steps);
  // Without steps each place is an iteration.
  if (!known || position.iteration() < last.iteration ||
      position.next_place() - last.next_place != position.iteration() - last.iteration) {
    return violate_(
        fmt::format("{} is after {} steps, iteration {}, place {}; of its timeline {} are "
                    "closed, up to iteration {}, place {}",
                    manifest, closed, position.iteration(), position.next_place(), steps.size(),
                    last.iteration, last.next_place));
  }
  std::set<uint64_t> members;
  for (const StepEntry& step : steps) members.insert(step.closures.begin(), step.closures.end());
  for (const v1::TabletCut& tablet : content.tablets()) {
    for (const v1::UpdateId& id : tablet.applied().applied()) {
      if (members.contains(id.closure())) continue;
      const bool has_step = (plan_.sync() && !plan_.changes_mode()) ||
                            places_.contains({content.timeline(), id.closure()});
      if (!has_step) continue;
      violate_(fmt::format("{}: tablet {} has applied closure {}, which is in none of its steps",
                           manifest, tablet.tablet(), id.closure()));
    }
  }
  committed_[manifest] = {std::move(steps), position};
}

void StepLedger::CheckStep(size_t step, uint64_t begin, const StepEntry& entry) const {
  const uint64_t most =
      std::min<uint64_t>(entry.mode.closures_per_step, plan_.Schedule().EpochEndOf(begin) - begin);
  const uint64_t size = entry.next_place - begin;
  const bool full = size == most || (entry.may_be_short && size > 0 && size < most);
  bool right = full;
  if (entry.mode.backup_work == BackupWork::kDrop) {
    right = full && !entry.places.empty() &&
            entry.places.size() <= entry.mode.replicas_to_aggregate &&
            std::all_of(entry.places.begin(), entry.places.end(),
                        [&](uint64_t p) { return p >= begin && p < entry.next_place; });
  } else {
    right = full && entry.places.size() == size;
    for (uint64_t i = 0; right && i < size; ++i) right = entry.places[i] == begin + i;
  }
  if (right) return;
  violate_(fmt::format("step {} of up to {} closures was closed with the places {}, from {} to {}",
                       step, most, fmt::join(entry.places, ","), begin, entry.next_place));
}

std::vector<double> StepLedger::SharesIn(const std::string& manifest) const {
  const JobSchedule schedule = plan_.Schedule();
  std::vector<double> shares(schedule.steps(), 1);
  const auto found = committed_.find(manifest);
  if (found == committed_.end()) {
    violate_(fmt::format("{} was never committed", manifest));
    return shares;
  }
  std::set<uint64_t> used;
  Boundary last;
  for (size_t i = 0; i < found->second.steps.size(); ++i) {
    const StepEntry& entry = found->second.steps[i];
    // Between two steps the job may have had another mode.
    const uint64_t begin = last.next_place + entry.iteration - last.iteration;
    if (entry.iteration < last.iteration || begin >= entry.next_place ||
        entry.next_place > shares.size()) {
      violate_(
          fmt::format("step {} has iteration {} and ends at place {}, after iteration {} at "
                      "place {}",
                      i + 1, entry.iteration, entry.next_place, last.iteration, last.next_place));
      return shares;
    }
    CheckStep(i + 1, begin, entry);
    std::fill(shares.begin() + static_cast<int64_t>(begin),
              shares.begin() + static_cast<int64_t>(entry.next_place), 0);
    for (const uint64_t place : entry.places) {
      if (!used.insert(place).second) violate_(fmt::format("place {} was a member twice", place));
      if (place < shares.size()) shares[place] = 1 / static_cast<double>(entry.places.size());
    }
    last = {.iteration = entry.iteration + 1, .next_place = entry.next_place};
  }
  const uint64_t end = found->second.position.next_place();
  if (end != schedule.steps()) {
    violate_(fmt::format("{} ends at place {}, not {}", manifest, end, schedule.steps()));
  }
  return shares;
}

}  // namespace cohort::simulator
