// The chief's process at its end.
#include "chief/chief.h"

#include <signal.h>

#include <catch2/catch.hpp>
#include <string>

#include "common/base/exit_code.h"
#include "common/base/log.h"
#include "common/base/signals.h"
#include "common/base/test_directory.h"

namespace cohort {
namespace {

TEST_CASE("why a job fails is told, also when a signal has come") {
  auto signals = SignalWaiter::Start();
  REQUIRE(signals.ok());
  std::string said;
  const auto log = *Logger::Create(
      {.to_stderr = false, .sink = [&](std::string_view line) { said.append(line); }});
  Chief::Options options;  // of a job that has no model
  options.job.log = log.get();
  options.on_done = [&] { (*signals)->NotifyDone(); };
  bool asked = false;
  SECTION("none has") {}
  SECTION("one has") {
    asked = true;
    raise(SIGTERM);
  }
  const auto chief = Chief::Start(std::move(options));
  REQUIRE(chief.ok());
  const int code = RunUntilEnd(chief->get(), signals->get(), log.get());
  const absl::Status why = (*chief)->Wait().status();
  INFO(why.ToString() << "\n" << said);
  REQUIRE(!why.ok());
  CHECK(code == (asked ? ExitCodeOfSignal(SIGTERM) : static_cast<int>(ExitCodeOf(why))));
  CHECK(testing::Contains(said, "failed") == asked);
  CHECK(testing::Contains(said, std::string(why.message())) == asked);
  CHECK(!testing::Contains(said, "ended_by_signal"));
}

}  // namespace
}  // namespace cohort
