#ifndef COHORT_COMMON_OS_PRIVATE_FILE_TEST_UTIL_H_
#define COHORT_COMMON_OS_PRIVATE_FILE_TEST_UTIL_H_

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>

#include "common/os/private_file.h"
#include "common/testing/directory_test_util.h"
#include "common/testing/status_test_util.h"

namespace cohort::testing {

// A directory with one private file.
struct PrivateFile {
  explicit PrivateFile(const std::string& text = "secret") {
    REQUIRE(CreatePrivateFile(path, text).ok());
  }
  void SetMode(mode_t mode) const { REQUIRE(chmod(path.c_str(), mode) == 0); }

  TestDirectory directory;
  const std::string path = directory / "file";
};

}  // namespace cohort::testing

#endif  // COHORT_COMMON_OS_PRIVATE_FILE_TEST_UTIL_H_
