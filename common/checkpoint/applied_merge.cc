#include "common/checkpoint/applied_merge.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "common/base/status.h"
#include "common/checkpoint/manifest.h"
#include "proto/checkpoint.pb.h"

namespace cohort {
namespace {

using Range = std::pair<uint64_t, uint64_t>;  // closure ids, end exclusive

// Sorts ranges, joins those that touch and drops what lies below `watermark`.
std::vector<Range> Normalize(std::vector<Range> ranges, uint64_t watermark) {
  std::sort(ranges.begin(), ranges.end());
  std::vector<Range> merged;
  for (auto [begin, end] : ranges) {
    begin = std::max(begin, watermark);
    if (begin >= end) continue;
    if (!merged.empty() && begin <= merged.back().second) {
      merged.back().second = std::max(merged.back().second, end);
    } else {
      merged.emplace_back(begin, end);
    }
  }
  return merged;
}

bool Contains(const std::vector<Range>& ranges, uint64_t closure) {
  auto after =
      std::upper_bound(ranges.begin(), ranges.end(), closure,
                       [](uint64_t value, const Range& range) { return value < range.first; });
  return after != ranges.begin() && closure < std::prev(after)->second;
}

// The rows [begin, end) of each variable that a tablet of a layout holds.
std::vector<std::pair<std::string, Range>> RowsOfTablet(const v1::Layout& layout, uint32_t tablet) {
  std::vector<std::pair<std::string, Range>> rows;
  for (const v1::ShardSpec& shard : layout.shards()) {
    if (shard.tablet() != tablet || shard.variable() >= uint32_t(layout.variables_size())) continue;
    rows.emplace_back(layout.variables(static_cast<int>(shard.variable())).name(),
                      Range{shard.row_begin(), shard.row_begin() + shard.rows()});
  }
  return rows;
}

bool Overlap(const Range& a, const Range& b) {
  return std::max(a.first, b.first) < std::min(a.second, b.second);
}

// By variable: into how many shards its rows are partitioned by hash; 0: they are in order.
std::map<std::string, int> HashesOf(const v1::Layout& layout) {
  std::map<std::string, int> hashes;
  for (const v1::ShardSpec& shard : layout.shards()) {
    if (shard.variable() >= uint32_t(layout.variables_size())) continue;
    const v1::VariableSpec& variable = layout.variables(static_cast<int>(shard.variable()));
    hashes[variable.name()] += variable.hashed_rows() ? 1 : 0;
  }
  return hashes;
}

// The tablets of the cut's layout that hold any of the target tablet's rows. If the rows of a
// variable were partitioned otherwise, each of its shards does.
std::set<uint32_t> SourcesOf(const v1::Layout& stored, const v1::Layout& target, uint32_t tablet) {
  std::multimap<std::string, Range> wanted;
  for (auto& [name, rows] : RowsOfTablet(target, tablet)) wanted.emplace(name, rows);
  std::map<std::string, int> hashes_then = HashesOf(stored), hashes_now = HashesOf(target);
  std::set<uint32_t> sources;
  for (const v1::ShardSpec& shard : stored.shards()) {
    if (shard.variable() >= uint32_t(stored.variables_size())) continue;
    const std::string& name = stored.variables(static_cast<int>(shard.variable())).name();
    const Range rows = {shard.row_begin(), shard.row_begin() + shard.rows()};
    const auto [begin, end] = wanted.equal_range(name);
    for (auto it = begin; it != end; ++it) {
      if (hashes_then[name] != hashes_now[name] || Overlap(it->second, rows))
        sources.insert(shard.tablet());
    }
  }
  return sources;
}

using Id = std::pair<uint64_t, uint32_t>;  // closure, ordinal

// The applied set of one source.
class Source {
 public:
  explicit Source(const v1::AppliedSetProto& set) : watermark_(set.watermark()) {
    std::vector<Range> closed;
    for (const v1::ClosureRange& range : set.closed()) {
      closed.emplace_back(range.begin(), range.end());
    }
    closed_ = Normalize(std::move(closed), watermark_);
    // A set that lists an id twice holds it once.
    for (const v1::UpdateId& id : set.applied()) applied_.emplace(id.closure(), id.ordinal());
  }
  uint64_t watermark() const { return watermark_; }
  const std::vector<Range>& closed() const { return closed_; }
  const std::set<Id>& applied() const { return applied_; }
  bool Closes(uint64_t closure) const { return closure < watermark_ || Contains(closed_, closure); }
  bool Holds(const Id& id) const { return Closes(id.first) || applied_.contains(id); }

 private:
  const uint64_t watermark_;
  std::vector<Range> closed_;
  std::set<Id> applied_;
};

// How many of the first `steps` updates of a closure every source has.
uint64_t HeldByAll(const std::vector<Source>& sets, uint64_t closure, uint32_t steps) {
  const auto open = std::find_if(sets.begin(), sets.end(),
                                 [&](const Source& set) { return !set.Closes(closure); });
  if (open == sets.end()) return steps;
  const std::set<Id>& applied = open->applied();
  return static_cast<uint64_t>(std::count_if(
      applied.lower_bound({closure, 0}), applied.lower_bound({closure, steps}), [&](const Id& id) {
        return std::all_of(sets.begin(), sets.end(),
                           [&](const Source& set) { return set.Holds(id); });
      }));
}

}  // namespace

RestoredTablet::RestoredTablet() : applied(std::make_unique<v1::AppliedSetProto>()) {}
RestoredTablet::RestoredTablet(RestoredTablet&&) noexcept = default;
RestoredTablet& RestoredTablet::operator=(RestoredTablet&&) noexcept = default;
RestoredTablet::~RestoredTablet() = default;

RestoredTablet MergeApplied(std::span<const v1::AppliedSetProto* const> sources,
                            const v1::ChiefCut& chief) {
  uint64_t watermark = chief.settled_watermark();
  std::vector<Range> closed;
  for (const uint64_t id : chief.finished()) closed.emplace_back(id, id + 1);
  for (const v1::ClosureRange& range : chief.finished_ranges()) {
    closed.emplace_back(range.begin(), range.end());
  }
  std::vector<Source> sets;
  for (const v1::AppliedSetProto* proto : sources) {
    const Source& set = sets.emplace_back(*proto);
    watermark = std::max(watermark, set.watermark());
    closed.insert(closed.end(), set.closed().begin(), set.closed().end());
  }
  closed = Normalize(std::move(closed), watermark);
  const auto is_closed = [&](uint64_t id) { return id < watermark || Contains(closed, id); };

  std::map<Id, size_t> holders;  // by single id: the number of sources that have it
  for (const Source& set : sets) {
    for (const Id& id : set.applied()) {
      if (!is_closed(id.first)) ++holders[id];
    }
  }

  RestoredTablet merged;
  merged.applied->set_watermark(watermark);
  for (const auto& [begin, end] : closed) {
    v1::ClosureRange* range = merged.applied->add_closed();
    range->set_begin(begin);
    range->set_end(end);
  }
  for (const auto& [id, count] : holders) {
    v1::UpdateId* update = merged.applied->add_applied();
    update->set_closure(id.first);
    update->set_ordinal(id.second);
    if (count < sources.size()) ++merged.partially_applied;
  }
  for (const v1::PendingClosure& pending : chief.pending()) {
    if (is_closed(pending.id())) {
      merged.partially_applied += pending.steps() - HeldByAll(sets, pending.id(), pending.steps());
    }
  }
  return merged;
}

absl::StatusOr<RestoredTablet> RestoreTablet(const v1::Manifest& manifest, const v1::Layout& target,
                                             uint32_t tablet) {
  std::map<uint32_t, const v1::TabletCut*> cuts;
  for (const v1::TabletCut& cut : manifest.tablets()) {
    if (!cuts.emplace(cut.tablet(), &cut).second) {
      return DataLoss("the manifest of {} has tablet {} twice", IdOf(manifest).ToString(),
                      cut.tablet());
    }
  }
  std::vector<const v1::AppliedSetProto*> sets;
  std::vector<uint32_t> tablets;
  uint64_t version = 0;
  for (const uint32_t source : SourcesOf(manifest.layout(), target, tablet)) {
    const auto cut = cuts.find(source);
    if (cut == cuts.end()) {
      return DataLoss("the manifest of {} has no applied set of its tablet {}",
                      IdOf(manifest).ToString(), source);
    }
    sets.push_back(&cut->second->applied());
    tablets.push_back(source);
    version = std::max(version, cut->second->version());
  }
  RestoredTablet restored = MergeApplied(sets, manifest.chief());
  restored.version = version;
  restored.source_tablets = std::move(tablets);
  return restored;
}

}  // namespace cohort
