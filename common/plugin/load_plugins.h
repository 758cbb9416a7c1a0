#ifndef COHORT_COMMON_PLUGIN_LOAD_PLUGINS_H_
#define COHORT_COMMON_PLUGIN_LOAD_PLUGINS_H_

#include <absl/status/status.h>

#include <span>
#include <string>
#include <vector>

namespace cohort {

class Logger;

// Loads the files of --plugin and registers their classes in this process. A file that is loaded
// already is skipped. `log` may be null. Errors: those of CheckPluginFile; exit code 78 for a
// library that cannot be loaded and for a class whose name is taken.
absl::Status LoadPlugins(std::span<const std::string> files, Logger* log);

// The same for a worker: only sources and transforms. A process calls one of the two.
absl::Status LoadDataPlugins(std::span<const std::string> files, Logger* log);

// A class that every worker of a cluster must have if its chief has it.
struct AddedClass {
  std::string name;    // "source Waves"
  std::string plugin;  // the file that has it; "": the program itself
};

// The sources and transforms that plugins or this program have registered.
std::vector<AddedClass> AddedDataClasses();

}  // namespace cohort

#endif  // COHORT_COMMON_PLUGIN_LOAD_PLUGINS_H_
