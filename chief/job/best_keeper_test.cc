#include "chief/job/best_keeper.h"

#include <catch2/catch.hpp>
#include <limits>

namespace cohort {
namespace {

// The manifest of a cut, number `cut`, at an epoch of 10 steps; completed.
v1::Manifest CutAt(const BestKeeper& keeper, uint64_t cut, uint64_t epoch, uint64_t timeline = 1) {
  v1::Manifest manifest;
  manifest.set_timeline(timeline);
  manifest.set_generation(1);
  manifest.set_cut(cut);
  manifest.set_epoch(epoch);
  manifest.set_step(10 * epoch);
  keeper.Complete(&manifest);
  return manifest;
}

BestKeeper::State After(uint64_t epoch, uint64_t timeline = 1) {
  return {timeline, epoch, 10 * epoch};
}

std::string BestName(const BestKeeper& keeper) {
  const auto best = keeper.best();
  return best.has_value() ? best->checkpoint() : "";
}

TEST_CASE("the checkpoint of what was validated is the best when it is better and committed") {
  BestKeeper keeper({.metric = "val_loss"});
  CHECK(keeper.Validated(After(1), 0.5));
  const v1::Manifest first = CutAt(keeper, 1, 1);
  CHECK(first.validated().metric() == "val_loss");
  CHECK(first.validated().value() == 0.5);
  CHECK(first.best().checkpoint() == "ckpt-1-1-1");
  CHECK(first.best().mode() == "min");
  CHECK(first.best().value() == 0.5);
  CHECK(first.best().epoch() == 1);
  CHECK(first.best().step() == 10);
  CHECK(BestName(keeper).empty());  // its commit may still fail
  keeper.Committed(first);
  CHECK(BestName(keeper) == "ckpt-1-1-1");

  CHECK(!keeper.Validated(After(2), 0.6));
  const v1::Manifest worse = CutAt(keeper, 2, 2);
  CHECK(worse.validated().value() == 0.6);
  CHECK(worse.best().checkpoint() == "ckpt-1-1-1");
  keeper.Committed(worse);
  CHECK(!keeper.Validated(After(3), 0.5));
  CHECK(!keeper.Validated(After(3), std::numeric_limits<double>::quiet_NaN()));
  CHECK(CutAt(keeper, 3, 3).best().checkpoint() == "ckpt-1-1-1");

  CHECK(keeper.Validated(After(4), 0.4));
  CHECK(CutAt(keeper, 4, 4).best().checkpoint() == "ckpt-1-1-4");  // which is not committed
  CHECK(keeper.Validated(After(5), 0.45));
  keeper.Committed(CutAt(keeper, 5, 5));
  CHECK(BestName(keeper) == "ckpt-1-1-5");
}

TEST_CASE("an epoch before the first that counts is never the best") {
  BestKeeper keeper({.metric = "val_loss", .first_epoch = 3});
  CHECK(!keeper.Validated(After(2), 0.1));
  CHECK(!keeper.IsBest(After(2)));
  keeper.Committed(CutAt(keeper, 1, 2));
  CHECK(BestName(keeper).empty());
  CHECK(keeper.Validated(After(3), 0.5));
  keeper.Committed(CutAt(keeper, 2, 3));
  CHECK(BestName(keeper) == "ckpt-1-1-2");
}

TEST_CASE("only a cut of the state that was validated has its figure") {
  BestKeeper keeper({.metric = "val_accuracy", .highest = true});
  REQUIRE(keeper.Validated(After(2), 0.9));
  CHECK(CutAt(keeper, 1, 2).has_best());
  CHECK(!CutAt(keeper, 1, 1).has_validated());
  CHECK(!CutAt(keeper, 1, 3).has_validated());
  CHECK(!CutAt(keeper, 1, 2, /*timeline=*/2).has_validated());
  v1::Manifest other;
  other.set_timeline(1);
  other.set_epoch(2);
  other.set_step(20);
  SECTION("a step on") { other.set_step(21); }
  SECTION("with the epoch open") { other.set_epoch(1); }
  SECTION("with a closure pending") { other.mutable_chief()->add_pending(); }
  keeper.Complete(&other);
  CHECK(!other.has_validated());
  CHECK(!other.has_best());
}

TEST_CASE("the checkpoint that the job continues from names the best one") {
  BestKeeper keeper({.metric = "val_loss"});
  keeper.Validated(After(1), 0.5);
  const v1::Manifest first = CutAt(keeper, 1, 1);
  keeper.Committed(first);
  keeper.Validated(After(2), 0.1);
  keeper.Committed(CutAt(keeper, 2, 2));
  CHECK(BestName(keeper) == "ckpt-1-1-2");
  CHECK(keeper.Holds(After(2)));

  keeper.ContinueFrom(&first, first.best());
  CHECK(BestName(keeper) == "ckpt-1-1-1");
  CHECK(keeper.Holds(After(1, /*timeline=*/2)));
  CHECK(!keeper.Holds(After(2, 2)));
  CHECK(!CutAt(keeper, 3, 2).has_validated());  // that was validated in what was left behind
  CHECK(!keeper.Validated(After(1, 2), 0.5));   // again
  CHECK(keeper.Validated(After(2, 2), 0.3));
  keeper.Committed(CutAt(keeper, 4, 2, 2));
  CHECK(BestName(keeper) == "ckpt-2-1-4");

  keeper.ContinueFrom(nullptr, std::nullopt);
  CHECK(BestName(keeper).empty());
  CHECK(!keeper.Holds(After(1)));
  CHECK(keeper.Validated(After(1, 3), 1e300));
}

}  // namespace
}  // namespace cohort
