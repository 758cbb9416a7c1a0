#include "common/row_figures/row_figures.h"

#include <catch2/catch.hpp>

#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

v1::RowFigures Part(const std::string& variable, uint64_t pulled,
                    const std::vector<std::pair<int64_t, uint64_t>>& hot) {
  v1::RowFigures part;
  part.set_variable(variable);
  part.set_rows(10);
  part.set_bytes(640);
  part.set_made(3);
  part.set_pulled(pulled);
  part.set_pushed(pulled / 2);
  for (const auto& [key, pulls] : hot) {
    v1::HotKey* const added = part.add_hot();
    added->set_key(key);
    added->set_pulls(pulls);
  }
  return part;
}

TEST_CASE("parts of a variable are added up, and the hottest keys of all remain") {
  v1::TaskFigures sum;
  std::vector<std::pair<int64_t, uint64_t>> many;
  for (int64_t key = 0; key < 10; ++key) many.emplace_back(key, 100 - key);
  AddRowFigures(Part("a", 100, many), &sum);
  AddRowFigures(Part("a", 300, {{70, 1000}, {71, 95}}), &sum);
  AddRowFigures(Part("b", 1, {}), &sum);
  REQUIRE(sum.rows_size() == 2);
  const v1::RowFigures& a = sum.rows(0);
  CHECK(a.rows() == 20);
  CHECK(a.bytes() == 1280);
  CHECK(a.made() == 6);
  CHECK(a.pulled() == 400);
  CHECK(a.pushed() == 200);
  REQUIRE(a.hot_size() == static_cast<int>(kHotKeys));
  CHECK(a.hot(0).key() == 70);
  CHECK(a.hot(1).key() == 0);
  CHECK(a.hot(9).pulls() == 93);
}

TEST_CASE("the number of variables is bounded") {
  v1::TaskFigures sum;
  for (size_t i = 0; i < kMostRowVariables + 20; ++i) {
    AddRowFigures(Part("v" + std::to_string(i), 1, {{1, 1}}), &sum);
  }
  REQUIRE(sum.rows_size() == static_cast<int>(kMostRowVariables) + 1);
  const v1::RowFigures& others = sum.rows(sum.rows_size() - 1);
  CHECK(others.variable() == kOtherVariables);
  CHECK(others.pulled() == 20);
  CHECK(others.hot_size() == 0);
}

TEST_CASE("skew is the largest share over the mean") {
  v1::TaskFigures first, second;
  AddRowFigures(Part("a", 600, {}), &first);
  AddRowFigures(Part("a", 200, {}), &second);
  const v1::TaskFigures* const servers[] = {&first, &second};
  const ClusterRowFigures figures(servers);
  CHECK(figures.skew() == Approx(1.5));
  CHECK(figures.servers[1].rows == 300);
  REQUIRE(figures.variables.size() == 1);
  CHECK(figures.variables[0].pulled() == 800);
  const v1::TaskFigures* const none[] = {nullptr};
  CHECK(ClusterRowFigures(none).empty());
  CHECK(ClusterRowFigures(none).skew() == 0);
}

}  // namespace
}  // namespace cohort
