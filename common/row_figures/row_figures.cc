#include "common/row_figures/row_figures.h"

#include <algorithm>
#include <tuple>

#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

v1::RowFigures* FiguresOf(const std::string& variable, v1::TaskFigures* sum) {
  auto& all = *sum->mutable_rows();
  const auto named = [&all](const std::string& name) {
    return std::ranges::find_if(all, [&](const v1::RowFigures& f) { return f.variable() == name; });
  };
  if (const auto found = named(variable); found != all.end()) return &*found;
  const bool full = all.size() >= static_cast<int>(kMostRowVariables);
  if (full) {
    if (const auto others = named(kOtherVariables); others != all.end()) return &*others;
  }
  v1::RowFigures* const added = all.Add();
  added->set_variable(full ? kOtherVariables : variable);
  return added;
}

// Keys of several variables mean nothing together.
void AddHotKeys(const v1::RowFigures& part, v1::RowFigures* sum) {
  if (part.variable() != sum->variable() || sum->variable() == kOtherVariables) return;
  sum->mutable_hot()->MergeFrom(part.hot());
  std::ranges::sort(*sum->mutable_hot(), [](const v1::HotKey& a, const v1::HotKey& b) {
    return std::tuple(b.pulls(), a.key()) < std::tuple(a.pulls(), b.key());
  });
  const int most = static_cast<int>(kHotKeys);
  if (sum->hot_size() > most) {
    sum->mutable_hot()->DeleteSubrange(most, sum->hot_size() - most);
  }
}

}  // namespace

void AddRowFigures(const v1::RowFigures& part, v1::TaskFigures* sum) {
  v1::RowFigures* const of = FiguresOf(part.variable(), sum);
  of->set_rows(of->rows() + part.rows());
  of->set_bytes(of->bytes() + part.bytes());
  of->set_made(of->made() + part.made());
  of->set_evicted(of->evicted() + part.evicted());
  of->set_not_admitted(of->not_admitted() + part.not_admitted());
  of->set_pulled(of->pulled() + part.pulled());
  of->set_pushed(of->pushed() + part.pushed());
  AddHotKeys(part, of);
}

ClusterRowFigures::ClusterRowFigures(std::span<const v1::TaskFigures* const> figures) {
  v1::TaskFigures sum;
  for (const v1::TaskFigures* const server : figures) {
    ServerShare& share = servers.emplace_back();
    if (server == nullptr) continue;
    for (const v1::RowFigures& part : server->rows()) {
      AddRowFigures(part, &sum);
      share.rows += part.pulled() + part.pushed();
      share.bytes += part.bytes();
    }
  }
  variables.assign(sum.rows().begin(), sum.rows().end());
}
ClusterRowFigures::~ClusterRowFigures() = default;
ClusterRowFigures::ClusterRowFigures(ClusterRowFigures&&) noexcept = default;
ClusterRowFigures& ClusterRowFigures::operator=(ClusterRowFigures&&) noexcept = default;

double ClusterRowFigures::skew() const {
  uint64_t sum = 0, most = 0;
  for (const ServerShare& server : servers) {
    sum += server.rows;
    most = std::max(most, server.rows);
  }
  return sum == 0 ? 0
                  : static_cast<double>(most) * static_cast<double>(servers.size()) /
                        static_cast<double>(sum);
}

}  // namespace cohort
