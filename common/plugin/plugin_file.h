#ifndef COHORT_COMMON_PLUGIN_PLUGIN_FILE_H_
#define COHORT_COMMON_PLUGIN_PLUGIN_FILE_H_

#include <absl/status/status.h>

#include <span>
#include <string>

namespace cohort {

// Checks that a plugin was built for this program, without loading it. Errors: exit code 66 for a
// file that does not exist; 78 for one that cannot be read, is no plugin, or was built against
// another version of Cohort or with another compiler or libraries.
absl::Status CheckPluginFile(const std::string& path);

// Checks every file. For a program that uses no classes of plugins: a parameter server.
absl::Status CheckPluginFiles(std::span<const std::string> paths);

}  // namespace cohort

#endif  // COHORT_COMMON_PLUGIN_PLUGIN_FILE_H_
