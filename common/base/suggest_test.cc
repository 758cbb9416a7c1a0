#include "common/base/suggest.h"

#include <catch2/catch.hpp>

namespace cohort {
namespace {

TEST_CASE("edit distance counts a swap of adjacent letters as one") {
  REQUIRE(EditDistance("", "") == 0);
  REQUIRE(EditDistance("abc", "") == 3);
  REQUIRE(EditDistance("", "abc") == 3);
  REQUIRE(EditDistance("kitten", "sitting") == 3);
  REQUIRE(EditDistance("relu", "rleu") == 1);
  REQUIRE(EditDistance("ca", "abc") == 3);  // no substring is edited twice
}

TEST_CASE("the nearest name is suggested, and no distant one") {
  const std::vector<std::string> known = {"relu", "sigmoid", "tanh", "softmax", "linear"};
  REQUIRE(DidYouMean("sigmod", known) == "; did you mean \"sigmoid\"?");
  REQUIRE(DidYouMean("ReLU", known) == "; did you mean \"relu\"?");
  REQUIRE(DidYouMean("Softmx", known) == "; did you mean \"softmax\"?");
  REQUIRE(DidYouMean("gelu", known) == "; did you mean \"relu\"?");
  REQUIRE(DidYouMean("convolution", known).empty());
  REQUIRE(DidYouMean("", known).empty());
  REQUIRE(DidYouMean("relu", std::vector<std::string>()).empty());
}

TEST_CASE("a suggestion reads as a question") {
  REQUIRE(DidYouMean("worke", {"chief", "worker", "ps"}) == "; did you mean \"worker\"?");
  REQUIRE(DidYouMean("xyzzy", {"chief", "worker", "ps"}).empty());
  // A short name is not suggested for every other short name.
  REQUIRE(DidYouMean("x", {"ps", "a"}).empty());
}

}  // namespace
}  // namespace cohort
