#include "chief/core/link_watch.h"

#include <algorithm>
#include <optional>

#include "common/base/status.h"

namespace cohort {
namespace {

// A server's bytes of the last seconds: what is older counts ever less.
constexpr double kBytesFade = 0.9;
// What requests cost beside their payload. It keeps the ratio of two idle servers at 1.
constexpr double kOverheadBytes = 4096;

double MedianWait(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Values that are compared with each other.
class WaitGroup {
 public:
  void Add(double value) { values_.push_back(value); }
  void Sort() { std::ranges::sort(values_); }
  // The median of the values without `own`, which is one of them. If two are left it is the larger:
  // what is slow must be slower than both. nullopt: there are no others.
  std::optional<double> MedianWithout(double own) const {
    if (values_.size() < 2) return std::nullopt;
    const auto at = static_cast<size_t>(std::ranges::lower_bound(values_, own) - values_.begin());
    const size_t middle = (values_.size() - 1) / 2;
    return values_[middle < at ? middle : middle + 1];
  }

 private:
  std::vector<double> values_;
};

std::string WaitsText(const std::array<double, 2>& waits) {
  return fmt::format("p50 {:.1f} ms, p99 {:.1f} ms", waits[0] * 1e3, waits[1] * 1e3);
}

}  // namespace

// One look at all figures.
class LinkWatch::Look {
 public:
  Look(const LinkWatch* watch, bool turns) : watch_(watch), turns_(turns) {
    for (const auto& [key, link] : watch_->links_) {
      for (size_t q = 0; q < 2; ++q) {
        workers_[GroupOf(key, key.first)][q].Add(WaitsOf(link)[q]);
        servers_[GroupOf(key, key.second)][q].Add(WaitsOf(link)[q]);
      }
    }
    for (auto* groups : {&workers_, &servers_}) {
      for (auto& [key, group] : *groups) {
        for (WaitGroup& quantile : group) quantile.Sort();
      }
    }
    for (const auto& [server, state] : watch_->servers_) bytes_.Add(state.moved);
    bytes_.Sort();
  }

  std::map<Subject, Finding> Findings() {
    for (const auto& [key, link] : watch_->links_) Compare(key, link);
    std::map<Subject, Finding> findings;
    for (const auto& [server, users] : users_) {
      findings[{Kind::kServer, -1, server}] = OfServer(server, users);
    }
    for (const auto& [key, compared] : compared_) {
      findings[{Kind::kLink, key.first, key.second}] = OfLink(key, compared, findings);
    }
    if (turns_) return findings;
    for (const auto& [worker, links] : links_of_) {
      findings[{Kind::kWorker, worker, -1}] = OfWorker(worker, links);
    }
    return findings;
  }

 private:
  using Key = std::pair<int, int>;
  using Groups = std::map<std::pair<int, bool>, std::array<WaitGroup, 2>>;
  struct Comparison {
    bool defined = false;  // there are others
    bool slow = false;
    Waits others{};
  };
  struct Compared {
    Waits own{};
    bool fresh = false;
    Comparison servers;  // with the worker's other servers
    Comparison workers;  // with other workers of the server
  };

  static Waits WaitsOf(const Link& link) {
    return {link.figure.p50_seconds, link.figure.p99_seconds};
  }
  static bool Counts(const Link& link, size_t quantile) {
    return quantile == 0 || link.figure.requests >= kTailRequests;
  }
  // Links within a host are compared with each other only: they have no network.
  std::pair<int, bool> GroupOf(const Key& link, int index) const {
    const auto worker = watch_->worker_hosts_.find(link.first);
    const auto server = watch_->servers_.find(link.second);
    return {index, worker != watch_->worker_hosts_.end() && server != watch_->servers_.end() &&
                       !worker->second.empty() && worker->second == server->second.host};
  }

  // How many times more bytes the server moves than others; at least 1.
  double WorkOf(int server) const {
    const auto state = watch_->servers_.find(server);
    if (state == watch_->servers_.end()) return 1;
    const double others = bytes_.MedianWithout(state->second.moved).value_or(state->second.moved);
    return std::max(1.0, (state->second.moved + kOverheadBytes) / (others + kOverheadBytes));
  }

  static Comparison With(const Link& link, const std::array<WaitGroup, 2>& group, double work,
                         bool was_slow) {
    Comparison comparison;
    for (size_t q = 0; q < 2; ++q) {
      const double own = WaitsOf(link)[q];
      const std::optional<double> others = group[q].MedianWithout(own);
      if (!others.has_value()) continue;
      const double factor = work * (was_slow ? kEndFactor : kFactor);
      const double floor = (was_slow ? kEndFloorSeconds : kFloorSeconds) *
                           (q == 0 ? 1 : kTailFloorSeconds / kFloorSeconds);
      comparison.defined = true;
      comparison.others[q] = *others;
      comparison.slow |= Counts(link, q) && own > factor * *others && own > *others + floor;
    }
    return comparison;
  }

  void Compare(const Key& key, const Link& link) {
    const auto [worker, server] = key;
    const bool slow = watch_->is_slow({Kind::kServer, -1, server}) ||
                      watch_->is_slow({Kind::kLink, worker, server});
    Compared compared{.own = WaitsOf(link), .fresh = link.fresh};
    compared.servers = With(link, workers_.at(GroupOf(key, worker)), WorkOf(server), slow);
    compared.workers = With(link, servers_.at(GroupOf(key, server)), /*work=*/1,
                            slow || watch_->is_slow({Kind::kWorker, worker, -1}));
    links_of_[worker].push_back(compared);
    if (compared.servers.defined) users_[server].push_back(compared);
    compared_[key] = compared;
  }

  Finding OfServer(int server, const std::vector<Compared>& users) const {
    const auto high =
        std::ranges::count_if(users, [](const Compared& c) { return c.servers.slow; });
    const bool was_slow = watch_->is_slow({Kind::kServer, -1, server});
    Finding finding = Middle(users, &Compared::servers);
    finding.slow = (high >= 2 || was_slow) && 2 * static_cast<size_t>(high) > users.size();
    finding.compared = fmt::format("other servers; {} of {} workers", high, users.size());
    return finding;
  }

  Finding OfLink(const Key& key, const Compared& compared,
                 const std::map<Subject, Finding>& findings) const {
    const auto server = findings.find({Kind::kServer, -1, key.second});
    const bool server_slow = (server != findings.end() && server->second.slow) ||
                             watch_->is_slow({Kind::kServer, -1, key.second});
    const bool slower_than_others = !compared.workers.defined || compared.workers.slow;
    return {.slow = compared.servers.slow && slower_than_others && !server_slow,
            .fresh = compared.fresh,
            .own = compared.own,
            .others = compared.servers.others,
            .compared = compared.workers.defined
                            ? fmt::format("the worker's other servers; other workers wait for "
                                          "ps:{} {}",
                                          key.second, WaitsText(compared.workers.others))
                            : "the worker's other servers; no other worker has such a link to it"};
  }

  Finding OfWorker(int worker, const std::vector<Compared>& links) const {
    Finding finding = Middle(links, &Compared::workers);
    finding.slow = std::ranges::all_of(links, [](const Compared& c) { return c.workers.slow; });
    finding.compared = "other workers, for each of its servers";
    return finding;
  }

  static Finding Middle(const std::vector<Compared>& links, Comparison Compared::*comparison) {
    Finding finding;
    for (size_t q = 0; q < 2; ++q) {
      std::vector<double> own;
      std::vector<double> others;
      for (const Compared& link : links) {
        own.push_back(link.own[q]);
        others.push_back((link.*comparison).others[q]);
        finding.fresh |= link.fresh;
      }
      finding.own[q] = MedianWait(std::move(own));
      finding.others[q] = MedianWait(std::move(others));
    }
    return finding;
  }

  const LinkWatch* const watch_;
  const bool turns_;
  Groups workers_;   // by worker: its waits
  Groups servers_;   // by server: the waits for it
  WaitGroup bytes_;  // what servers have moved lately
  std::map<Key, Compared> compared_;
  std::map<int, std::vector<Compared>> users_;     // by server: its links that have others
  std::map<int, std::vector<Compared>> links_of_;  // by worker
};

void LinkWatch::OnAdopted(Task task, const std::string& host_id) {
  OnLost(task);
  if (task.role == Role::kWorker) {
    worker_hosts_[task.index] = host_id;
  } else {
    servers_[task.index] = {.host = host_id};
  }
}

void LinkWatch::OnLost(Task task) {
  const bool worker = task.role == Role::kWorker;
  std::erase_if(links_, [&](const auto& link) {
    return (worker ? link.first.first : link.first.second) == task.index;
  });
  if (!worker) servers_.erase(task.index);
}

void LinkWatch::OnWaits(int worker, const std::vector<LinkFigure>& waits, int64_t now_us) {
  for (const LinkFigure& wait : waits) {
    if (wait.requests == 0) continue;
    links_[{worker, wait.server}] = {.figure = wait, .reported_us = now_us, .fresh = true};
  }
}

void LinkWatch::OnBytes(int server, uint64_t bytes) {
  Server& state = servers_[server];
  if (state.reported && bytes >= state.bytes) {
    state.moved = state.moved * kBytesFade + static_cast<double>(bytes - state.bytes);
  }
  state.reported = true;
  state.bytes = bytes;
}

std::vector<LinkWatch::Event> LinkWatch::Tick(int64_t now_us, bool turns) {
  std::vector<Event> events;
  if (now_us < next_look_us_) return events;
  next_look_us_ = now_us + kLookUs;
  std::erase_if(links_,
                [&](const auto& link) { return now_us - link.second.reported_us > kForgetUs; });
  Decide(Look(this, turns).Findings(), &events);
  for (auto& [key, link] : links_) link.fresh = false;
  return events;
}

void LinkWatch::Decide(const std::map<Subject, Finding>& findings, std::vector<Event>* events) {
  for (const auto& [subject, finding] : findings) {
    if (finding.slow) states_.try_emplace(subject);
  }
  for (auto state = states_.begin(); state != states_.end();) {
    const Subject& subject = state->first;
    State& s = state->second;
    const auto found = findings.find(subject);
    const bool gone = found == findings.end();
    const Finding finding = gone ? Finding{.fresh = true} : found->second;
    const std::string what =
        gone ? NameOf(subject) + ": no requests"
             : fmt::format("{}: {}, against {} of {}", NameOf(subject), WaitsText(finding.own),
                           WaitsText(finding.others), finding.compared);
    if (finding.slow == s.slow) s.rounds = 0;
    if (finding.slow != s.slow && finding.fresh) ++s.rounds;
    if (finding.slow) s.what = what;
    if (s.rounds >= kRounds) {
      s = {.slow = !s.slow, .what = what};
      static constexpr const char* kNames[3][2] = {{"slow_server_ended", "slow_server"},
                                                   {"slow_link_ended", "slow_link"},
                                                   {"slow_worker_ended", "slow_worker"}};
      events->push_back({kNames[static_cast<size_t>(subject.kind)][s.slow ? 1 : 0], what, s.slow});
    }
    const bool calm = !s.slow && !finding.slow;
    state = calm ? states_.erase(state) : std::next(state);
  }
}

std::vector<LinkFigure> LinkWatch::figures() const {
  std::vector<LinkFigure> figures;
  for (const auto& [key, link] : links_) {
    LinkFigure& figure = figures.emplace_back(link.figure);
    figure.slow = is_slow({Kind::kServer, -1, key.second}) ||
                  is_slow({Kind::kLink, key.first, key.second}) ||
                  is_slow({Kind::kWorker, key.first, -1});
  }
  return figures;
}

std::vector<std::string> LinkWatch::slow() const {
  std::vector<std::string> texts;
  for (const auto& [subject, state] : states_) {
    if (state.slow) texts.push_back(state.what);
  }
  return texts;
}

size_t LinkWatch::Count(Kind kind) const {
  return static_cast<size_t>(std::ranges::count_if(states_, [kind](const auto& state) {
    return state.first.kind == kind && state.second.slow;
  }));
}

std::string LinkWatch::NameOf(const Subject& subject) {
  switch (subject.kind) {
    case Kind::kServer:
      return Task{Role::kPs, subject.server}.ToString();
    case Kind::kWorker:
      return Task{Role::kWorker, subject.worker}.ToString();
    case Kind::kLink:
      break;
  }
  return fmt::format("{} -> {}", Task{Role::kWorker, subject.worker}.ToString(),
                     Task{Role::kPs, subject.server}.ToString());
}

}  // namespace cohort
