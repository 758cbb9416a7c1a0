#include "common/data/click_log.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <set>

namespace cohort {
namespace {

ClickLogOptions OptionsOf(int64_t vocabulary) {
  ClickLogOptions options;
  options.seed = 7;
  options.vocabulary.fill(vocabulary);
  return options;
}

TEST_CASE("the records of a click log depend on the seed and their index alone") {
  const ClickLog log(OptionsOf(1000));
  ClickRecord first, again, other;
  log.Draw(5, &first);
  log.Draw(6, &again);
  CHECK(again.tables != first.tables);
  log.Draw(5, &again);
  CHECK(again.numbers == first.numbers);
  CHECK(again.tables == first.tables);
  CHECK(again.probability == first.probability);
  ClickLogOptions options = OptionsOf(1000);
  options.seed = 8;
  ClickLog(options).Draw(5, &other);
  CHECK(other.tables != first.tables);
}

TEST_CASE("ids of a click log follow a power law") {
  const ClickLog log(OptionsOf(1000));
  std::map<int64_t, int> counts;
  ClickRecord record;
  for (uint64_t i = 0; i < 4000; ++i) {
    log.Draw(i, &record);
    for (const auto& ids : record.tables) {
      REQUIRE(ids.size() == 1);
      REQUIRE((ids[0] >= 0 && ids[0] < 1000));
      ++counts[ids[0]];
    }
    for (const int64_t number : record.numbers) REQUIRE(number >= 0);
  }
  // The share of rank r is (r^-0.05 - (r + 1)^-0.05) / (1 - 1001^-0.05).
  const auto share = [](double rank) {
    return (std::pow(rank, -0.05) - std::pow(rank + 1, -0.05)) / (1 - std::pow(1001, -0.05));
  };
  for (const int64_t id : {0, 1, 9, 99}) {
    const double expected = 4000 * 26 * share(static_cast<double>(id) + 1);
    INFO(id << ": " << counts[id] << ", expected " << expected);
    CHECK(std::abs(counts[id] - expected) < 5 * std::sqrt(expected));
  }
  CHECK(counts.size() > 990);
}

TEST_CASE("hashed ids are other names of the same ids") {
  ClickLogOptions options = OptionsOf(50);
  const ClickLog plain(options);
  options.hashed = true;
  const ClickLog hashed(options);
  std::map<int64_t, std::set<int64_t>> names;
  std::set<int64_t> all;
  ClickRecord a, b;
  for (uint64_t i = 0; i < 500; ++i) {
    plain.Draw(i, &a);
    hashed.Draw(i, &b);
    REQUIRE(a.probability == b.probability);
    REQUIRE(a.click == b.click);
    names[a.tables[3][0]].insert(b.tables[3][0]);
    all.insert(b.tables[3][0]);
    REQUIRE(b.tables[3][0] >= 0);
  }
  CHECK(all.size() == names.size());
  for (const auto& [id, hashes] : names) CHECK(hashes.size() == 1);
}

TEST_CASE("bags are lists, some of them empty") {
  ClickLogOptions options = OptionsOf(1000);
  options.bags = true;
  const ClickLog log(options);
  ClickRecord record;
  size_t ids = 0, empty = 0, longest = 0;
  for (uint64_t i = 0; i < 3000; ++i) {
    log.Draw(i, &record);
    for (size_t table = 0; table < ClickLogOptions::kBags; ++table) {
      ids += record.tables[table].size();
      empty += record.tables[table].empty() ? 1 : 0;
      longest = std::max(longest, record.tables[table].size());
    }
    REQUIRE(record.tables[ClickLogOptions::kBags].size() == 1);
  }
  // An exponential variable of mean 2.5, rounded down, has the mean 1 / (e^0.4 - 1), and is 0 with
  // the probability 1 - e^-0.4.
  CHECK(static_cast<double>(ids) / 9000 == Approx(2.033).margin(0.1));
  CHECK(static_cast<double>(empty) / 9000 == Approx(0.3297).margin(0.02));
  CHECK(longest > 10);
  CHECK(longest <= ClickLogOptions::kLongestBag);
}

TEST_CASE("clicks of a click log come with the probabilities of its hidden model") {
  const ClickLog log(OptionsOf(1000));
  ClickRecord record;
  double clicks = 0, expected = 0, variance = 0;
  AucCounter auc;
  for (uint64_t i = 0; i < 20000; ++i) {
    log.Draw(i, &record);
    clicks += record.click ? 1 : 0;
    expected += record.probability;
    variance += record.probability * (1 - record.probability);
    auc.Add(record.probability, record.click);
  }
  CHECK(std::abs(clicks - expected) < 4 * std::sqrt(variance));
  CHECK((expected > 0.2 * 20000 && expected < 0.4 * 20000));
  CHECK((auc.Value() > 0.7 && auc.Value() < 0.9));
}

TEST_CASE("the area under a curve counts pairs, and ties as half a pair") {
  AucCounter auc;
  CHECK(auc.Value() == 0.5);
  auc.Add(0.2, false);
  auc.Add(0.4, true);
  auc.Add(0.4, false);
  auc.Add(0.8, true);
  CHECK(auc.Value() == Approx((1 + 0.5 + 1 + 1) / 4.0));
}

}  // namespace
}  // namespace cohort
