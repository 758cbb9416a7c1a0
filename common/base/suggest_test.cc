#include "common/base/suggest.h"

#include <catch2/catch.hpp>

namespace cohort {
namespace {

TEST_CASE("edit distance counts swaps of neighbours as one") {
  REQUIRE(EditDistance("", "") == 0);
  REQUIRE(EditDistance("abc", "") == 3);
  REQUIRE(EditDistance("", "abc") == 3);
  REQUIRE(EditDistance("kitten", "sitting") == 3);
  REQUIRE(EditDistance("relu", "rleu") == 1);
  REQUIRE(EditDistance("ca", "abc") == 3);  // no substring is edited twice
}

TEST_CASE("the nearest name is suggested, and nothing far") {
  const std::vector<std::string> known = {"relu", "sigmoid", "tanh", "softmax", "linear"};
  REQUIRE(NearestName("sigmod", known) == "sigmoid");
  REQUIRE(NearestName("ReLU", known) == "relu");
  REQUIRE(NearestName("Softmx", known) == "softmax");
  REQUIRE(NearestName("gelu", known) == "relu");
  REQUIRE(NearestName("convolution", known).empty());
  REQUIRE(NearestName("", known).empty());
  REQUIRE(NearestName("relu", std::vector<std::string>()).empty());
}

TEST_CASE("a suggestion reads as a question") {
  REQUIRE(DidYouMean("worke", {"chief", "worker", "ps"}) == "; did you mean \"worker\"?");
  REQUIRE(DidYouMean("xyzzy", {"chief", "worker", "ps"}).empty());
  // A short name is not suggested for whatever else is short.
  REQUIRE(DidYouMean("x", {"ps", "a"}).empty());
}

}  // namespace
}  // namespace cohort
