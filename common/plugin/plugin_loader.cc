#include "common/plugin/plugin_loader.h"

#include <dlfcn.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <map>
#include <system_error>

#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/plugin/load_plugins.h"
#include "common/plugin/plugin_file.h"

namespace cohort {
namespace {

// The libraries of this process, which stay loaded.
struct Loaded {
  Mutex mu;
  std::map<void*, absl::Status> handles ABSL_GUARDED_BY(mu);     // how registering has ended
  std::map<std::string, std::string> files ABSL_GUARDED_BY(mu);  // by class: "source Waves"
};

Loaded& LoadedPlugins() {
  static Loaded& loaded = *new Loaded;
  return loaded;
}

absl::Status Refused(const std::string& file, const std::string& why) {
  return FailedPrecondition("plugin {}: {}", file, why);
}

absl::Status LoadPluginFile(const std::string& file, bool lazy, Logger* log,
                            std::unique_ptr<DataClasses> (*make)()) {
  COHORT_RETURN_IF_ERROR(CheckPluginFile(file));
  // With a slash the system does not search its directories of libraries.
  std::error_code error;
  const std::string path = std::filesystem::absolute(file, error).string();
  Loaded& loaded = LoadedPlugins();
  MutexLock lock(&loaded.mu);
  void* const handle = dlopen(path.c_str(), (lazy ? RTLD_LAZY : RTLD_NOW) | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const why = dlerror();
    return Refused(file, fmt::format("it cannot be loaded: {}", why == nullptr ? path : why));
  }
  const auto [known, is_new] = loaded.handles.emplace(handle, absl::OkStatus());
  if (!is_new) return known->second;
  const auto add =
      reinterpret_cast<void (*)(PluginRegistry*)>(dlsym(handle, "cohort_plugin_register"));
  if (add == nullptr) return known->second = Refused(file, "it has no COHORT_PLUGIN");
  const std::unique_ptr<DataClasses> classes = make();
  add(classes.get());
  if (!classes->status().ok()) {
    return known->second = Refused(file, std::string(classes->status().message()));
  }
  for (const std::string& name : classes->names()) loaded.files[name] = file;
  if (log != nullptr) {
    log->Info("plugin_loaded",
              {{"file", file}, {"classes", fmt::format("{}", fmt::join(classes->names(), ", "))}});
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status LoadPluginFiles(std::span<const std::string> files, bool lazy, Logger* log,
                             std::unique_ptr<DataClasses> (*make)()) {
  for (const std::string& file : files) {
    COHORT_RETURN_IF_ERROR(LoadPluginFile(file, lazy, log, make));
  }
  return absl::OkStatus();
}

std::vector<AddedClass> AddedDataClasses() {
  std::vector<AddedClass> added;
  const SchemaSet* const kinds[] = {&Sources(), &Transforms()};
  Loaded& loaded = LoadedPlugins();
  MutexLock lock(&loaded.mu);
  for (const SchemaSet* classes : kinds) {
    for (const std::string& name : classes->AddedNames()) {
      added.push_back({fmt::format("{} {}", classes->kind(), name), ""});
      const auto file = loaded.files.find(added.back().name);
      if (file != loaded.files.end()) added.back().plugin = file->second;
    }
  }
  return added;
}

absl::Status LoadDataPlugins(std::span<const std::string> files, Logger* log) {
  return LoadPluginFiles(files, /*lazy=*/true, log, [] { return std::make_unique<DataClasses>(); });
}

}  // namespace cohort
