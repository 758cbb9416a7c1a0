#include "common/base/status.h"

#include <catch2/catch.hpp>

namespace cohort {
namespace {

TEST_CASE("a failure's payload survives annotation") {
  absl::Status status = Unavailable("connection {} is lost", 7);
  REQUIRE_FALSE(GetFailure(status).has_value());
  REQUIRE_FALSE(IsRetryable(status));
  SetFailure(&status, {"worker", 3, 0xfedcba9876543210, true});
  status = Annotate(status, "closure 17");
  REQUIRE(status.message() == "closure 17: connection 7 is lost");
  REQUIRE(status.code() == absl::StatusCode::kUnavailable);
  const auto info = GetFailure(status);
  REQUIRE(info.has_value());
  REQUIRE(info->role == "worker");
  REQUIRE(info->index == 3);
  REQUIRE(info->incarnation == 0xfedcba9876543210);
  REQUIRE(IsRetryable(status));
}

TEST_CASE("a failure may name no task") {
  absl::Status status = InvalidArgument("shape");
  SetFailure(&status, {"", 0, 0, false});
  REQUIRE(GetFailure(status)->role.empty());
  REQUIRE_FALSE(IsRetryable(status));
  absl::Status ok;
  SetFailure(&ok, {"worker", 0, 0, true});
  REQUIRE(ok.ok());
  REQUIRE(Annotate(ok, "context").ok());
}

absl::StatusOr<int> Half(int n) {
  if (n % 2 != 0) return InvalidArgument("{} is odd", n);
  return n / 2;
}

absl::StatusOr<int> Quarter(int n) {
  COHORT_ASSIGN_OR_RETURN(const int half, Half(n));
  COHORT_RETURN_IF_ERROR(Half(half).status());
  return half / 2;
}

TEST_CASE("the macros return errors") {
  REQUIRE(*Quarter(8) == 2);
  REQUIRE(Quarter(6).status().message() == "3 is odd");
  REQUIRE(Quarter(5).status().message() == "5 is odd");
}

}  // namespace
}  // namespace cohort
