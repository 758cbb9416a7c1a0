#ifndef COHORT_COMMON_PLUGIN_PLUGIN_LOADER_H_
#define COHORT_COMMON_PLUGIN_PLUGIN_LOADER_H_

#include <absl/status/status.h>

#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/plugin/plugin_registry.h"
#include "common/schema/class_registry.h"

namespace cohort {

class Logger;

// Registers the classes of one plugin: the first error, and the names of the classes. This one has
// the kinds that a worker uses, and ignores the others.
class DataClasses : public PluginRegistry {
 public:
  virtual ~DataClasses() = default;

  void AddSource(SourceClass (*make)()) override { Register(&Sources(), make); }
  void AddTransform(TransformClass (*make)()) override { Register(&Transforms(), make); }
  void AddFinalizer(FinalizerClass (*make)()) override {}
  void AddLayer(LayerClass (*make)()) override {}
  void AddLoss(LossClass (*make)()) override {}
  void AddMetric(MetricClass (*make)()) override {}

  const absl::Status& status() const { return status_; }
  const std::vector<std::string>& names() const { return names_; }  // "source Waves"

 protected:
  template <typename Class>
  void Register(ClassRegistry<Class>* classes, Class (*make)()) {
    Class added = make();
    const std::string name = fmt::format("{} {}", classes->kind(), added.schema.name);
    if (const absl::Status status = classes->Register(std::move(added)); !status.ok()) {
      if (status_.ok()) status_ = status;
      return;
    }
    names_.push_back(name);
  }

 private:
  absl::Status status_;
  std::vector<std::string> names_;
};

// Loads the files that are not loaded yet and lets each register its classes. `make` makes the
// registry of one plugin. `lazy`: functions of the plugin that this program cannot link are no
// error until they are called. `log` may be null. Errors: those of LoadPlugins.
absl::Status LoadPluginFiles(std::span<const std::string> files, bool lazy, Logger* log,
                             std::unique_ptr<DataClasses> (*make)());

}  // namespace cohort

#endif  // COHORT_COMMON_PLUGIN_PLUGIN_LOADER_H_
