// Loads the library that plugin_test_classes.cc makes, and refuses files that are not like it.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "common/base/exit_code.h"
#include "common/model/layers/layer.h"
#include "common/plugin/load_plugins.h"
#include "common/plugin/plugin_file.h"
#include "common/plugin/plugin_info.h"
#include "common/testing/directory_test_util.h"

namespace cohort {
namespace {

using Catch::Contains;

std::string PluginPath(const std::string& name) {
  const char* binary = std::getenv("COHORT_BINARY_DIR");
  REQUIRE(binary != nullptr);
  return std::string(binary) + "/tests/" + name + ".so";
}

std::string Read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  REQUIRE(in.good());
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// Refused with this exit code, by name.
void CheckRefused(const testing::TestDirectory& directory, const std::string& bytes,
                  const std::string& why, ExitCode code = ExitCode::kConfig) {
  const std::string path = directory / "changed.so";
  std::ofstream(path, std::ios::binary) << bytes;
  const std::string files[] = {path};
  for (const absl::Status& status :
       {CheckPluginFiles(files), LoadPlugins(files, nullptr), LoadDataPlugins(files, nullptr)}) {
    CHECK_THAT(std::string(status.message()), Contains("plugin " + path) && Contains(why));
    CHECK(ExitCodeOf(status) == code);
  }
}

TEST_CASE("a file that is no plugin of this build is refused before it is loaded") {
  testing::TestDirectory directory;
  const std::string missing = directory / "missing.so";
  CHECK(ExitCodeOf(CheckPluginFile(missing)) == ExitCode::kNoInput);
  CHECK_THAT(std::string(CheckPluginFile(missing).message()), Contains("does not exist"));
  CHECK_THAT(std::string(CheckPluginFile(directory.path()).message()), Contains("is not a file"));
  CheckRefused(directory, "", "is not a plugin of Cohort");
  CheckRefused(directory, "#!/bin/sh\nexit 0\n", "is not a plugin of Cohort");

  const std::string plugin = Read(PluginPath("test_plugin"));
  const size_t info = plugin.find(PluginInfo::kMagic);
  REQUIRE(info != std::string::npos);
  std::string other = plugin;
  other.replace(info, 6, "cohort");
  CheckRefused(directory, other, "is not a plugin of Cohort: it has no COHORT_PLUGIN");
  other = plugin;
  other.replace(info + 16, 6, std::string("9.8.7\0", 6));
  CheckRefused(directory, other,
               "was built against Cohort 9.8.7, this is " COHORT_VERSION ": build it again");
  other = plugin;
  other[info + 48] ^= 1;
  CheckRefused(directory, other, "was built with another compiler, or other libraries");
  CheckRefused(directory, plugin.substr(0, info + 20), "is not a plugin of Cohort");
  other = plugin;
  other[18] = 8;  // e_machine: MIPS
  const std::string files[] = {directory.Write("mips.so", other)};
  for (const absl::Status& status :
       {LoadPlugins(files, nullptr), LoadDataPlugins(files, nullptr)}) {
    CHECK_THAT(std::string(status.message()), Contains("plugin " + files[0] + ": it cannot be"));
    CHECK(ExitCodeOf(status) == ExitCode::kConfig);
  }
}

TEST_CASE("a plugin registers its classes, once") {
  const std::string files[] = {PluginPath("test_plugin"), PluginPath("test_plugin")};
  CHECK(CheckPluginFiles(files).ok());
  REQUIRE(Layers().Find("Halve").status().code() == absl::StatusCode::kInvalidArgument);
  for (int i = 0; i < 2; ++i) {
    const absl::Status loaded = LoadPlugins(files, nullptr);
    INFO(loaded);
    REQUIRE(loaded.ok());
  }
  const auto halve = Layers().Find("Halve");
  REQUIRE(halve.ok());
  CHECK((*halve)->schema.Find("trainable") != nullptr);
  CHECK(Sources().Find("Nothing").ok());
  CHECK(Transforms().Find("Same").ok());
  CHECK(Finalizers().Find("Half").ok());
  CHECK(Losses().Find("Zero").ok());
  CHECK(Metrics().Find("Half").ok());
  const std::vector<AddedClass> added = AddedDataClasses();
  REQUIRE(added.size() == 2);
  CHECK(added[0].name == "source Nothing");
  CHECK(added[0].plugin == files[0]);
  CHECK(added[1].name == "transform Same");

  // Another library with the same classes.
  testing::TestDirectory directory;
  const std::string copies[] = {directory / "copy.so"};
  std::filesystem::copy_file(files[0], copies[0]);
  for (int i = 0; i < 2; ++i) {
    const absl::Status taken = LoadPlugins(copies, nullptr);
    CHECK_THAT(std::string(taken.message()), Contains("there is a source \"Nothing\" already"));
    CHECK(ExitCodeOf(taken) == ExitCode::kConfig);
  }
}

}  // namespace
}  // namespace cohort
