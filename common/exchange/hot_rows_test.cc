#include "common/exchange/hot_rows.h"

#include <catch2/catch.hpp>
#include <map>
#include <numeric>

#include "common/base/status.h"
#include "common/graph/op_registry.h"

namespace cohort {
namespace {

constexpr int kRows = 0;   // a variable with rows of two floats
constexpr int kDense = 1;  // and one that is read whole

// Servers whose row k has (k, number of the pull). They note which keys they are asked for.
class Servers : public VariableAccess {
 public:
  absl::Status Begin(const PushBatch* push, const PullBatch* pull) override {
    asked.clear();
    if (push != nullptr) ++pushes;
    pull_ = pull;
    return absl::OkStatus();
  }
  absl::StatusOr<ExchangeResult> Finish() override {
    if (!fails.ok()) return fails;
    ExchangeResult result;
    if (pull_ == nullptr) return result;
    ++pulls;
    for (const PullItem& item : pull_->items) {
      auto* to = static_cast<float*>(item.destination);
      if (!item.rows) *to = static_cast<float>(pulls);
      for (const int64_t key : item.keys) {
        asked.push_back(key);
        *to++ = static_cast<float>(key);
        *to++ = static_cast<float>(pulls);
      }
    }
    // The timeline comes with an answer.
    const bool is_asked = !asked.empty() || !pull_->items[0].rows;
    result.pulled_timeline = is_asked ? timeline : 0;
    return result;
  }
  void Interrupt() override {}

  std::vector<int64_t> asked;
  int pushes = 0;
  int pulls = 0;
  uint64_t timeline = 1;
  absl::Status fails;

 private:
  const PullBatch* pull_ = nullptr;
};

struct Fixture {
  explicit Fixture(int64_t max_age, int64_t kept_rows = 1024) {
    Program program;
    program.variables = {{"table", {DType::kFloat32, {{1 << 20}, {2}}}},
                         {"dense", {DType::kFloat32, {}}}};
    Node node;
    node.op = "read_rows";
    node.attrs = {{"variable", int64_t{kRows}}, {"max_age", max_age}, {"kept_rows", kept_rows}};
    program.nodes.push_back(node);
    auto inner = std::make_unique<Servers>();
    servers = inner.get();
    access = KeepHotRows(program, std::move(inner), {&rows, &bytes});
  }

  // Reads the keys; returns of each the pull in which the servers gave it.
  absl::StatusOr<std::vector<int>> Read(std::vector<int64_t> keys, bool with_dense = false,
                                        uint64_t step = 0, bool pushes = false) {
    std::vector<float> values(keys.size() * 2, -1);
    float dense = -1;
    std::vector<PullItem> items;
    if (with_dense) items.push_back({.variable = kDense, .destination = &dense});
    items.push_back({.variable = kRows, .rows = true, .keys = keys, .destination = values.data()});
    const PullBatch pull{.items = items, .step = step};
    const PushBatch push;
    COHORT_RETURN_IF_ERROR(access->Exchange(pushes ? &push : nullptr, &pull).status());
    if (with_dense) CHECK(dense == static_cast<float>(servers->pulls));
    std::vector<int> given;
    for (size_t k = 0; k < keys.size(); ++k) {
      CHECK(values[2 * k] == static_cast<float>(keys[k]));
      given.push_back(static_cast<int>(values[2 * k + 1]));
    }
    return given;
  }

  Counter rows, bytes;
  Servers* servers;
  std::unique_ptr<VariableAccess> access;
};

using Given = std::vector<int>;

TEST_CASE("a row is read from the worker's copy until the copy is too old") {
  Fixture f(2);
  CHECK(*f.Read({3, 5}) == Given{1, 1});
  CHECK(*f.Read({3, 4, 5, 9}) == Given{1, 2, 1, 2});
  CHECK(f.servers->asked == std::vector<int64_t>{4, 9});
  CHECK(*f.Read({3, 4, 9}, /*with_dense=*/true) == Given{1, 2, 2});
  CHECK(f.servers->asked.empty());
  // Two steps have read the copies of 3 and 5.
  CHECK(*f.Read({3, 4, 5, 9}) == Given{4, 2, 4, 2});
  CHECK(*f.Read({3, 4, 5, 9}) == Given{4, 5, 4, 5});
  CHECK(f.rows.value() == 9);
  CHECK(f.bytes.value() == 9 * 16);
}

TEST_CASE("a pull asks for one row at least, because answers bring the timeline") {
  Fixture f(5);
  CHECK(*f.Read({7, 8}) == Given{1, 1});
  CHECK(*f.Read({7, 8}) == Given{2, 1});
  CHECK(f.servers->asked == std::vector<int64_t>{7});
  CHECK(*f.Read({}) == Given{});
}

TEST_CASE("pushes travel as before, and synchronous steps read no copies") {
  Fixture f(5);
  CHECK(*f.Read({1, 2}, true, 0, true) == Given{1, 1});
  CHECK(*f.Read({1, 2}, true, 0, true) == Given{1, 1});
  CHECK(f.servers->pushes == 2);
  CHECK(*f.Read({1, 2}, true, /*step=*/6, true) == Given{3, 3});
  CHECK(f.servers->asked.size() == 2);
  // Copies grow older in these steps.
  for (int step = 7; step < 10; ++step) REQUIRE(f.Read({1, 2}, true, 7, true).ok());
  CHECK(*f.Read({1, 2}, true, 0, true) == Given{7, 7});
  const PushBatch push;
  CHECK(f.access->Exchange(&push, nullptr).ok());
  CHECK(f.servers->pushes == 8);
}

TEST_CASE("a rollback ends the copies") {
  Fixture f(5);
  CHECK(*f.Read({1, 2}) == Given{1, 1});
  f.servers->timeline = 2;
  const auto mixed = f.Read({1, 3});
  CHECK(absl::IsAborted(mixed.status()));
  CHECK_THAT(std::string(mixed.status().message()), Catch::Contains("timeline 2"));
  CHECK(*f.Read({1, 2}) == Given{3, 3});
  // A pull that has read no copy is of one timeline.
  f.servers->timeline = 3;
  CHECK(*f.Read({4, 5}) == Given{4, 4});
  CHECK(*f.Read({1, 4}) == Given{5, 4});
  // A fenced exchange ends them, too; an interrupted one does not.
  f.servers->fails = Cancelled("interrupted");
  CHECK(absl::IsCancelled(f.Read({1, 4, 6}).status()));
  f.servers->fails = absl::OkStatus();
  CHECK(*f.Read({1, 4, 6}) == Given{5, 4, 6});
  f.servers->fails = Aborted("fenced");
  CHECK(absl::IsAborted(f.Read({1, 4, 6}).status()));
  f.servers->fails = absl::OkStatus();
  CHECK(*f.Read({1, 4}) == Given{7, 7});
}

TEST_CASE("hot rows stay where many others pass") {
  constexpr int kSteps = 400;
  constexpr int64_t kHot = 64;
  Fixture f(/*max_age=*/8, /*kept_rows=*/256);
  std::vector<int64_t> keys(1000);
  std::iota(keys.begin(), keys.begin() + kHot, 0);
  for (int step = 0; step < kSteps; ++step) {
    std::iota(keys.begin() + kHot, keys.end(), 1000 + step * 1000);
    REQUIRE(f.Read(keys, true).ok());
  }
  // Each is pulled in one of nine steps. A few of the 64 sets have more than four of these keys.
  CHECK(f.rows.value() > kSteps * kHot * 7 / 9);
  CHECK(f.rows.value() <= kSteps * kHot * 8 / 9);
}

TEST_CASE("a program that keeps no rows reads as before") {
  Fixture f(0);
  CHECK(*f.Read({1}) == Given{1});
  CHECK(*f.Read({1}) == Given{2});
  CHECK(f.access.get() == f.servers);
}

}  // namespace
}  // namespace cohort
