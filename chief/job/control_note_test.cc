#include "chief/job/control_note.h"

#include <catch2/catch.hpp>
#include <fstream>

#include "common/testing/directory_test_util.h"

namespace cohort {
namespace {

TEST_CASE("what a user has changed is read again, and a damaged note is refused") {
  const testing::TestDirectory directory;
  REQUIRE(ReadControlNote(directory.path()).ok());
  CHECK(ReadControlNote(directory.path())->epochs == 0);
  REQUIRE(
      WriteControlNote(directory.path(),
                       {.paused = true, .epochs = 9, .epochs_of_file = 2, .fenced_workers = {1, 4}})
          .ok());
  const auto note = ReadControlNote(directory.path());
  REQUIRE(note.ok());
  CHECK(note->paused);
  CHECK(note->epochs == 9);
  CHECK(note->epochs_of_file == 2);
  CHECK(note->fenced_workers == std::set<int>{1, 4});
  for (const char* text :
       {"", "[]", "{\"paused\": 1}", "{\"epochs\": -1}",
        "{\"paused\": true, \"epochs\": 1, \"epochs_of_file\": 1, \"fenced_workers\": [-1]}"}) {
    std::ofstream(directory / "control_note.json") << text;
    CHECK(absl::IsDataLoss(ReadControlNote(directory.path()).status()));
  }
}

}  // namespace
}  // namespace cohort
