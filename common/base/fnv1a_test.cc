#include "common/base/fnv1a.h"

#include <catch2/catch.hpp>

namespace cohort {
namespace {

// From the authors' table of test vectors.
TEST_CASE("the published values of FNV-1a") {
  CHECK(Fnv1a("") == 0xcbf29ce484222325);
  CHECK(Fnv1a("a") == 0xaf63dc4c8601ec8c);
  CHECK(Fnv1a("foobar") == 0x85944171f73967e8);
}

TEST_CASE("a hash continues another, over every byte") {
  CHECK(Fnv1a("bar", Fnv1a("foo")) == Fnv1a("foobar"));
  CHECK(Fnv1a(std::string_view("\0", 1)) == 0xaf63bd4c8601b7df);
  CHECK(Fnv1a("\xff") == (kFnv1aBasis ^ 0xff) * 0x100000001b3);  // not as a negative number
}

}  // namespace
}  // namespace cohort
