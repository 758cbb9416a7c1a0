#include "chief/core/homes.h"

#include <algorithm>
#include <string>
#include <utility>

#include "chief/core/recovery.h"
#include "common/base/crash_point.h"
#include "common/base/status.h"

namespace cohort {
namespace {

constexpr int64_t kFillAgainUs = 1'000'000;  // after a copy could not be filled
// In TabletHomes.servers, if servers have joined: a chief that knows no such servers must not take
// these homes.
constexpr uint32_t kJoined = 1u << 31;

}  // namespace

void Homes::DrainFreePlaces() {
  for (size_t ps = 0; ps < context_->options.ps.size(); ++ps) {
    if (context_->options.ps[ps].empty()) drained_.insert(static_cast<int>(ps));
  }
}

size_t Homes::servers_left(bool there) const {
  size_t left = 0;
  for (int ps = 0; ps < membership_->ps(); ++ps) {
    const bool counts = !drained_.contains(ps) && (!there || membership_->adopted(PsTask(ps)));
    left += counts ? 1 : 0;
  }
  return left;
}

bool Homes::drained(int ps) const {
  if (context_->options.ps[static_cast<size_t>(ps)].empty()) return true;
  return drained_.contains(ps) && servers_left(/*there=*/false) > 0;
}

std::map<uint32_t, Homes::Home> Homes::OfLayout(const v1::Layout& layout, uint64_t term) {
  std::map<uint32_t, Home> homes;
  for (const v1::TabletSpec& tablet : layout.tablets()) {
    homes[tablet.tablet()] = {.term = term,
                              .primary = static_cast<int>(tablet.ps()),
                              .copy = static_cast<int>(tablet.copy()) - 1,
                              .place = static_cast<int>(tablet.ps())};
  }
  return homes;
}

// Depends on the layout and on the drained servers alone, so each chief finds the same.
v1::Layout Homes::Placed(const v1::Layout& layout) const {
  v1::Layout placed = layout;
  if (drained_.empty()) return placed;
  std::vector<uint32_t> left;
  for (int ps = 0; ps < membership_->ps(); ++ps) {
    if (!drained_.contains(ps)) left.push_back(static_cast<uint32_t>(ps));
  }
  for (v1::TabletSpec& tablet : *placed.mutable_tablets()) {
    const auto other = [&](uint32_t not_this) {
      uint32_t ps = left[tablet.tablet() % left.size()];
      if (ps == not_this) ps = left[(tablet.tablet() + 1) % left.size()];
      return ps;
    };
    if (drained(static_cast<int>(tablet.ps()))) tablet.set_ps(other(UINT32_MAX));
    if (tablet.copy() == 0) continue;
    const bool lost = drained(static_cast<int>(tablet.copy()) - 1);
    if (!lost && tablet.copy() - 1 != tablet.ps()) continue;
    const uint32_t copy = other(tablet.ps());
    tablet.set_copy(copy == tablet.ps() ? 0 : copy + 1);
  }
  return placed;
}

void Homes::Assign(const v1::Layout& layout, uint64_t term) {
  homes_ = OfLayout(layout, term);
  replicated_ = context_->options.copies;
  changed_ = false;
  moved_ = false;
  record_ = 0;
  requests_.clear();
  promoted_.clear();
  journaled_.reset();
  const auto is_server = [this](int ps) { return ps < membership_->ps(); };
  if (std::ranges::any_of(drained_, is_server)) journaled_.emplace();
  fill_.reset();
  degraded_ = false;
}

// ------------------------------------------------------------------ a chief that starts

void Homes::Restore(const std::optional<v1::TabletHomes>& journaled) {
  journaled_.reset();
  drained_.clear();
  DrainFreePlaces();
  // Else a user has started the job with other servers.
  if (!journaled.has_value() || (journaled->servers() & ~kJoined) != named()) return;
  journaled_ = journaled;
  for (const uint32_t ps : journaled->drained()) {
    if (ps < context_->options.ps.size()) drained_.insert(static_cast<int>(ps));
  }
}

// Without a record the terms are those that the primaries report: the assignment's.
std::map<uint32_t, Homes::Home> Homes::Known(const v1::Layout& layout) const {
  if (!journaled_.has_value() || journaled_->homes_size() == 0) {
    std::map<uint32_t, Home> homes = OfLayout(Placed(layout), 0);
    uint64_t term = 0;
    for (int ps = 0; ps < membership_->ps(); ++ps) {
      const v1::PsHello& hello = servers_->hello(ps);
      if (hello.timeline() == context_->timeline) term = std::max(term, hello.term());
    }
    for (auto& [tablet, home] : homes) home.term = term;
    return homes;
  }
  std::map<uint32_t, Home> homes;
  for (const v1::TabletHome& home : journaled_->homes()) {
    homes[home.tablet()] = {
        .term = home.term(),
        .primary = static_cast<int>(home.primary()),
        .copy = static_cast<int>(home.copy()) - 1,
        .place = static_cast<int>(home.place() > 0 ? home.place() - 1 : home.primary())};
  }
  return homes;
}

// A copy that was promoted in the journal alone has its older term.
bool Homes::HasTablet(int ps, uint32_t tablet, const Home& home) const {
  if (!membership_->adopted(PsTask(ps))) return false;
  const v1::PsHello& hello = servers_->hello(ps);
  if (hello.timeline() != context_->timeline || hello.job() != context_->options.job) return false;
  return std::ranges::any_of(hello.homes(), [&](const v1::TabletHome& has) {
    return has.tablet() == tablet &&
           (has.copy() == 0 ? has.term() == home.term : has.term() < home.term);
  });
}

bool Homes::HasCopy(int ps, uint32_t tablet, const Home& home) const {
  if (ps < 0 || !membership_->adopted(PsTask(ps))) return false;
  const v1::PsHello& hello = servers_->hello(ps);
  if (hello.timeline() != context_->timeline || hello.job() != context_->options.job) return false;
  return std::ranges::any_of(hello.homes(), [&](const v1::TabletHome& has) {
    return has.tablet() == tablet && has.copy() != 0 && has.term() == home.term;
  });
}

bool Homes::CanResume(const v1::Layout& layout) const {
  const std::map<uint32_t, Home> known = Known(layout);
  if (known.size() != static_cast<size_t>(layout.tablets_size())) return false;
  return std::ranges::all_of(known, [&](const auto& entry) {
    const auto& [tablet, home] = entry;
    return HasTablet(home.primary, tablet, home) || HasCopy(home.copy, tablet, home);
  });
}

void Homes::Resume(const v1::Layout& layout) {
  homes_ = Known(layout);
  replicated_ = context_->options.copies;
  if (!replicated_ && !journaled_.has_value()) return;
  bool lost = false;
  for (auto& [tablet, home] : homes_) {
    if (!HasTablet(home.primary, tablet, home)) {
      Promote(tablet, &home);
      lost = true;
    } else if (home.copy >= 0 && !HasCopy(home.copy, tablet, home)) {
      home.copy = -1;
      lost = true;
    }
  }
  changed_ = true;
  NoteDegraded();
  if (lost) {
    Journal();
  } else {
    Tell();
  }
}

// ------------------------------------------------------------------ new copies, and moves

// Prefers the servers that the layout names.
std::optional<int> Homes::ServerForCopy(const v1::TabletSpec& spec, const Home& home) const {
  std::vector<int> servers = {static_cast<int>(spec.copy()) - 1, static_cast<int>(spec.ps())};
  for (int ps = 0; ps < membership_->ps(); ++ps) servers.push_back(ps);
  const auto server = std::ranges::find_if(servers, [&](int ps) {
    return ps >= 0 && ps != home.primary && !drained(ps) && membership_->adopted(PsTask(ps));
  });
  return server == servers.end() ? std::nullopt : std::optional<int>(*server);
}

void Homes::Advance(const v1::Layout& layout, const v1::StepPosition& boundary,
                    const v1::LearningRates& rates, bool may_hand_over) {
  if (HandsOverEarly()) return;
  if (fill_.has_value() || !steady() || context_->now_us < next_fill_us_) return;
  for (const v1::TabletSpec& spec : layout.tablets()) {
    Home& home = homes_.at(spec.tablet());
    if (!membership_->adopted(PsTask(home.primary))) continue;
    std::optional<int> server;
    if (home.place != home.primary && membership_->adopted(PsTask(home.place))) {
      if (home.copy == home.place) {
        if (!may_hand_over) continue;
        ++handed_over_;
        hand_over_ = fmt::format("tablet {} from ps:{} to ps:{}, {} still move", spec.tablet(),
                                 home.primary, home.place, moving() - 1);
        Promote(spec.tablet(), &home);
        return Journal();
      }
      server = home.place;
    } else if (replicated_ && (home.copy < 0 || drained(home.copy))) {
      server = ServerForCopy(spec, home);
    }
    const bool surplus = !replicated_ && home.copy >= 0;  // a move that was called off
    if (!server.has_value() && !surplus) continue;
    if (home.copy < 0) return MakeCopy(layout, spec.tablet(), *server, boundary, rates);
    home.copy = -1;  // a tablet has one log, and so one copy
    return Journal();
  }
}

bool Homes::HandsOverEarly() {
  if (!context_->options.test_faults.hands_over_early || !steady()) return false;
  if (!fill_.has_value() || fill_->state != FillState::kFilling) return false;
  Home& home = homes_.at(fill_->tablet);
  if (home.place != fill_->server) return false;
  const NewCopy early = *std::exchange(fill_, std::nullopt);
  home.copy = early.server;
  Promote(early.tablet, &home);
  Journal();
  return true;
}

void Homes::MakeCopy(const v1::Layout& layout, uint32_t tablet, int server,
                     const v1::StepPosition& boundary, const v1::LearningRates& rates) {
  v1::ChiefToPs message;
  v1::AssignTablets* const assign = message.mutable_make_copy()->mutable_assign();
  *assign->mutable_layout() = layout;
  for (v1::TabletSpec& spec : *assign->mutable_layout()->mutable_tablets()) {
    spec.set_copy(spec.tablet() == tablet ? static_cast<uint32_t>(server) + 1 : 0);
  }
  assign->set_ps(static_cast<uint32_t>(server));
  assign->set_timeline(context_->timeline);
  assign->set_term(homes_.at(tablet).term);
  *assign->mutable_position() = boundary;
  *assign->mutable_learning_rates() = rates;
  fill_ = NewCopy{.tablet = tablet, .server = server};
  fill_->request = outbox_->AskPs(server, std::move(message));
}

absl::Status Homes::CheckDrain(int ps) const {
  if (ps < 0 || ps >= membership_->ps()) {
    return InvalidArgument("there is no ps:{}: the job has ps:0 to ps:{}", ps,
                           membership_->ps() - 1);
  }
  const size_t others =
      servers_left(/*there=*/true) - (!drained(ps) && membership_->adopted(PsTask(ps)) ? 1 : 0);
  if (!drained(ps) && others == 0) {
    return InvalidArgument(
        "ps:{} is the last server with tablets that is there: add another one first", ps);
  }
  return absl::OkStatus();
}

absl::Status Homes::Drain(int ps, const v1::Layout& layout) {
  COHORT_RETURN_IF_ERROR(CheckDrain(ps));
  if (!drained_.insert(ps).second) return absl::OkStatus();
  const v1::Layout placed = Placed(layout);
  for (const v1::TabletSpec& spec : placed.tablets()) {
    Home& home = homes_.at(spec.tablet());
    if (!drained(home.place)) continue;
    // The server of the copy has the tablet already.
    const bool ready = home.copy >= 0 && !drained(home.copy);
    home.place = ready ? home.copy : static_cast<int>(spec.ps());
  }
  Journal();
  return absl::OkStatus();
}

absl::Status Homes::Fence(int ps) {
  COHORT_RETURN_IF_ERROR(CheckDrain(ps));
  const auto alone = std::ranges::count_if(homes_, [&](const auto& entry) {
    return entry.second.primary == ps && !Successor(entry.first, entry.second).has_value();
  });
  if (alone > 0) {
    return FailedPrecondition(
        "ps:{} cannot be fenced: {} of its tablets have no copy on another server that is there "
        "(`strategy.replicas: 2` keeps copies). `drain-ps {}` moves them while ps:{} answers",
        ps, alone, ps, ps);
  }
  DropFill(ps);
  const bool had = drained(ps) && !Involves(ps);
  drained_.insert(ps);
  if (!had) Lose(ps);
  return absl::OkStatus();
}

absl::Status Homes::Return(int ps) {
  const bool free =
      ps >= 0 && ps < membership_->ps() && context_->options.ps[static_cast<size_t>(ps)].empty();
  if (free) return InvalidArgument("there is no ps:{}: the server with this number has left", ps);
  if (drained_.erase(ps) == 0) return InvalidArgument("ps:{} was not drained", ps);
  Journal();
  return absl::OkStatus();
}

void Homes::Forget(int ps) {
  drained_.insert(ps);
  bool moved = false;
  for (auto& [tablet, home] : homes_) {
    if (home.place != ps || home.primary == ps) continue;
    home.place = home.primary;
    moved = true;
  }
  if (moved) Journal();
}

absl::Status Homes::Rebalance(const v1::Layout& layout) {
  const v1::Layout placed = Placed(layout);
  for (const v1::TabletSpec& spec : placed.tablets()) {
    homes_.at(spec.tablet()).place = static_cast<int>(spec.ps());
  }
  for (int ps = static_cast<int>(named()); ps < membership_->ps(); ++ps) {
    if (!drained(ps)) FillUp(ps);
  }
  Journal();
  return absl::OkStatus();
}

absl::Status Homes::Move(uint32_t tablet, int ps) {
  const auto home = homes_.find(tablet);
  if (home == homes_.end() || ps < 0 || ps >= membership_->ps() || drained(ps)) {
    return InvalidArgument("tablet {} cannot move to ps:{}", tablet, ps);
  }
  if (home->second.place == ps) return absl::OkStatus();
  home->second.place = ps;
  Journal();
  return absl::OkStatus();
}

// Takes tablets from the servers that have most of them.
void Homes::FillUp(int server) {
  while (true) {
    std::map<int, std::vector<Home*>> by_place;
    for (auto& [tablet, home] : homes_) by_place[home.place].push_back(&home);
    const auto most = std::ranges::max_element(
        by_place, {}, [](const auto& entry) { return entry.second.size(); });
    if (most->second.size() <= by_place[server].size() + 1) return;
    most->second.back()->place = server;
  }
}

std::vector<ServerTablets> Homes::figures() const {
  // Between its loss and the rollback, tablets are on a server whose place is free already.
  std::vector<ServerTablets> servers(context_->options.ps.size());
  for (const auto& [tablet, home] : homes_) {
    ++servers[static_cast<size_t>(home.primary)].tablets;
    if (home.copy >= 0) ++servers[static_cast<size_t>(home.copy)].copies;
  }
  servers.resize(static_cast<size_t>(membership_->ps()));
  for (size_t i = 0; i < servers.size(); ++i) servers[i].drained = drained(static_cast<int>(i));
  return servers;
}

size_t Homes::moving() const {
  return static_cast<size_t>(std::ranges::count_if(
      homes_, [](const auto& home) { return home.second.place != home.second.primary; }));
}

void Homes::DropFill(int ps) {
  if (!fill_.has_value()) return;
  if (fill_->server == ps || homes_.at(fill_->tablet).primary == ps) EndFill();
}

void Homes::EndFill() {
  const NewCopy ended = *std::exchange(fill_, std::nullopt);
  next_fill_us_ = context_->now_us + kFillAgainUs;
  // The journal may have it, so that it could be promoted: that ends before its primary hears.
  if (ended.state == FillState::kJournaling) return Journal();
  if (record_ != 0) return;  // OnJournaled tells all servers
  Send(homes_.at(ended.tablet).primary);
  Send(ended.server);
}

void Homes::Send(int ps) {
  if (!membership_->adopted(PsTask(ps))) return;
  const uint64_t request = outbox_->AskPs(ps, MessageFor(ps));
  if (requests_.contains(ps)) requests_[ps] = request;
}

// ------------------------------------------------------------------ losses

bool Homes::Involves(int ps) const {
  return std::ranges::any_of(homes_, [ps](const auto& home) {
    return home.second.primary == ps || home.second.copy == ps;
  });
}

bool Homes::IsPrimary(int ps) const {
  return std::ranges::any_of(homes_, [ps](const auto& home) { return home.second.primary == ps; });
}

bool Homes::Survives(int ps) const {
  return in_use() && Involves(ps) && std::ranges::all_of(homes_, [&](const auto& entry) {
           const Home& home = entry.second;
           return home.primary != ps || Successor(entry.first, home).has_value();
         });
}

// The server that answers for the tablet if its primary is lost.
std::optional<int> Homes::Successor(uint32_t tablet, const Home& home) const {
  int server = home.copy;
  const bool filling =
      fill_.has_value() && fill_->tablet == tablet && fill_->state != FillState::kMaking;
  if (server < 0 && filling && context_->options.test_faults.promotes_filling) {
    server = fill_->server;
  }
  if (server < 0 || !membership_->adopted(PsTask(server))) return std::nullopt;
  return server;
}

void Homes::Promote(uint32_t tablet, Home* home) {
  uint64_t newest = 0;
  for (const auto& [tablet, other] : homes_) newest = std::max(newest, other.term);
  home->term =
      std::max(newest + 1, servers_->NextTerm(EraOf(outbox_->generation(), context_->timeline)));
  home->primary = Successor(tablet, *home).value_or(home->copy);
  home->copy = -1;
  promoted_.insert(home->primary);
}

void Homes::Lose(int ps) {
  for (auto& [tablet, home] : homes_) {
    if (home.primary == ps) {
      Promote(tablet, &home);
      home.place = home.primary;
    } else if (home.copy == ps) {
      home.copy = -1;
    }
    if (home.place == ps) home.place = home.primary;
  }
  promoted_.erase(ps);
  requests_.erase(ps);
  Journal();
}

void Homes::LoseCopy(uint32_t tablet, uint64_t term) {
  const auto home = homes_.find(tablet);
  if (fill_.has_value() && fill_->tablet == tablet && home != homes_.end() &&
      home->second.term == term) {
    return EndFill();
  }
  if (home == homes_.end() || home->second.term != term || home->second.copy < 0) return;
  home->second.copy = -1;
  Journal();
}

// ------------------------------------------------------------------ progress

void Homes::Journal() {
  changed_ = true;
  // A server drops a copy that its new homes do not have. It is asked again.
  if (fill_.has_value() && fill_->state == FillState::kMaking) fill_.reset();
  v1::JournalRecord record;
  for (const auto& [tablet, home] : homes_) {
    v1::TabletHome* const out = record.mutable_homes()->add_homes();
    out->set_tablet(tablet);
    out->set_term(home.term);
    out->set_primary(static_cast<uint32_t>(home.primary));
    const bool filled =
        fill_.has_value() && fill_->tablet == tablet && fill_->state == FillState::kJournaling;
    out->set_copy(static_cast<uint32_t>((filled ? fill_->server : home.copy) + 1));
    out->set_place(static_cast<uint32_t>(home.place) + 1);
  }
  const bool joined = membership_->ps() > static_cast<int>(named());
  record.mutable_homes()->set_servers(named() | (joined ? kJoined : 0));
  for (const int ps : drained_) {
    if (ps < membership_->ps()) record.mutable_homes()->add_drained(static_cast<uint32_t>(ps));
  }
  record_ = outbox_->Append(std::move(record));
}

void Homes::OnJournaled(uint64_t record) {
  if (record_ == 0 || record < record_) return;
  record_ = 0;
  COHORT_CRASH_POINT("chief.homes.journaled");
  if (!hand_over_.empty()) {
    outbox_->effects()->Note("tablet_handed_over", std::exchange(hand_over_, ""));
  }
  if (fill_.has_value() && fill_->state == FillState::kJournaling) {
    homes_.at(fill_->tablet).copy = fill_->server;
    fill_.reset();
  }
  NoteDegraded();
  Tell();
}

void Homes::NoteDegraded() {
  if (degraded_ == (alone() > 0)) return;
  degraded_ = !degraded_;
  outbox_->effects()->Note(
      degraded_ ? "degraded" : "not_degraded",
      degraded_ ? fmt::format("{} of {} tablets have no copy: the job would go back to its newest "
                              "checkpoint if their server were lost now",
                              alone(), homes_.size())
                : "each tablet has a copy again");
}

void Homes::Tell() {
  const std::set<int> answer = primaries();
  requests_.clear();
  for (int ps = 0; ps < membership_->ps(); ++ps) {
    if (!membership_->adopted(PsTask(ps))) {
      if (answer.contains(ps)) requests_[ps] = 0;  // OnPsAdopted asks
      continue;
    }
    const uint64_t request = outbox_->AskPs(ps, MessageFor(ps));
    if (answer.contains(ps)) requests_[ps] = request;
  }
  moved_ = true;
}

bool Homes::OnPsMessage(int ps, const v1::PsToChief& message) {
  if (message.has_copy_complete()) {
    const auto home = homes_.find(message.copy_complete().tablet());
    const bool right = fill_.has_value() && fill_->state == FillState::kFilling &&
                       home != homes_.end() && fill_->tablet == home->first &&
                       home->second.primary == ps &&
                       home->second.term == message.copy_complete().term();
    if (right) {
      fill_->state = FillState::kJournaling;
      Journal();
    }
    return true;
  }
  if (fill_.has_value() && fill_->state == FillState::kMaking && fill_->server == ps &&
      message.request() == fill_->request) {
    if (!message.has_assigned()) {
      EndFill();
      return true;
    }
    fill_->state = FillState::kFilling;
    if (record_ == 0) {
      Send(ps);
      Send(homes_.at(fill_->tablet).primary);
    }
    return true;
  }
  const auto asked = requests_.find(ps);
  if (asked == requests_.end() || message.request() == 0 || asked->second != message.request()) {
    return message.has_homes_taken();
  }
  if (message.has_homes_taken()) {
    requests_.erase(asked);
  } else if (fill_.has_value() && fill_->server == ps) {
    EndFill();  // it does not have the copy that is filled
  }
  // Another server that cannot take its homes is of no use: its next hello shows what it has.
  return true;
}

void Homes::OnPsAdopted(int ps) {
  if (record_ != 0 || (!changed_ && requests_.empty())) return;
  const uint64_t request = outbox_->AskPs(ps, MessageFor(ps));
  if (requests_.contains(ps)) requests_[ps] = request;
}

std::optional<std::set<int>> Homes::TakeMoved() {
  if (!moved_ || !steady()) return std::nullopt;
  moved_ = false;
  return std::exchange(promoted_, {});
}

// ------------------------------------------------------------------ state

size_t Homes::alone() const {
  if (!replicated_) return 0;
  return static_cast<size_t>(
      std::ranges::count_if(homes_, [](const auto& home) { return home.second.copy < 0; }));
}

std::map<uint32_t, int> Homes::places() const {
  std::map<uint32_t, int> places;
  for (const auto& [tablet, home] : homes_) places[tablet] = PlaceOf(home);
  return places;
}

bool Homes::settled() const {
  const bool moves = std::ranges::any_of(
      homes_, [this](const auto& home) { return PlaceOf(home.second) != home.second.primary; });
  return steady() && !fill_.has_value() && !moves && alone() == 0;
}

std::set<int> Homes::open_servers() const {
  std::set<int> servers;
  for (int ps = 0; ps < membership_->ps(); ++ps) {
    if (!drained(ps) && membership_->adopted(PsTask(ps))) servers.insert(ps);
  }
  return servers;
}

std::set<int> Homes::primaries() const {
  std::set<int> servers;
  for (const auto& [tablet, home] : homes_) servers.insert(home.primary);
  return servers;
}

bool Homes::all_there() const {
  for (int ps = 0; ps < membership_->ps(); ++ps) {
    if (!drained(ps) && !membership_->adopted(PsTask(ps))) return false;
  }
  return true;
}

bool Homes::there() const {
  return std::ranges::all_of(primaries(),
                             [this](int ps) { return membership_->adopted(PsTask(ps)); });
}

v1::ChiefToPs Homes::MessageFor(int ps) const {
  v1::ChiefToPs message;
  v1::TakeHomes* const take = message.mutable_homes();
  take->set_timeline(context_->timeline);
  take->set_ps(static_cast<uint32_t>(ps));
  for (const auto& [tablet, home] : homes_) {
    const bool fills =
        fill_.has_value() && fill_->tablet == tablet && fill_->state != FillState::kMaking;
    const int copy = fills ? fill_->server : home.copy;
    if (home.primary != ps && copy != ps) continue;
    v1::TabletHome* const out = take->add_homes();
    out->set_tablet(tablet);
    out->set_term(home.term);
    out->set_primary(static_cast<uint32_t>(home.primary));
    out->set_copy(static_cast<uint32_t>(copy + 1));
    out->set_filling(fills);
    if (home.primary == ps && copy >= 0) *out->mutable_copy_route() = servers_->RouteOf(copy);
  }
  return message;
}

void Homes::SendRoutes(int worker, const v1::Layout& layout) const {
  if (!membership_->adopted(WorkerTask(worker))) return;
  v1::ChiefToWorker message;
  v1::Routes* const routes = message.mutable_routes();
  *routes->mutable_layout() = layout;
  routes->set_timeline(context_->timeline);
  uint32_t tablets = 0;
  for (const v1::TabletSpec& tablet : layout.tablets()) {
    tablets = std::max(tablets, tablet.tablet() + 1);
  }
  routes->mutable_terms()->Resize(static_cast<int>(tablets), 0);
  for (v1::TabletSpec& tablet : *routes->mutable_layout()->mutable_tablets()) {
    const Home& home = homes_.at(tablet.tablet());
    tablet.set_ps(static_cast<uint32_t>(home.primary));
    routes->set_terms(static_cast<int>(tablet.tablet()), home.term);
  }
  for (int ps = 0; ps < membership_->ps(); ++ps) *routes->add_servers() = servers_->RouteOf(ps);
  outbox_->ToWorker(worker, std::move(message));
}

std::string Homes::Waiting() const {
  if (record_ != 0) return "waiting for the journal to have the new homes of tablets";
  if (requests_.empty()) return "";
  return fmt::format("waiting for {} to take the new places of tablets",
                     TaskName(context_->options, PsTask(requests_.begin()->first)));
}

}  // namespace cohort
