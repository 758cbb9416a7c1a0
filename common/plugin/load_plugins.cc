#include "common/plugin/load_plugins.h"

#include <memory>

#include "common/plugin/plugin_loader.h"

namespace cohort {
namespace {

// The kinds of all programs that build models.
class AllClasses : public DataClasses {
 public:
  void AddFinalizer(FinalizerClass (*make)()) override { Register(&Finalizers(), make); }
  void AddLayer(LayerClass (*make)()) override { Register(&Layers(), make); }
  void AddLoss(LossClass (*make)()) override { Register(&Losses(), make); }
  void AddMetric(MetricClass (*make)()) override { Register(&Metrics(), make); }
};

}  // namespace

absl::Status LoadPlugins(std::span<const std::string> files, Logger* log) {
  return LoadPluginFiles(files, /*lazy=*/false, log, []() -> std::unique_ptr<DataClasses> {
    return std::make_unique<AllClasses>();
  });
}

}  // namespace cohort
