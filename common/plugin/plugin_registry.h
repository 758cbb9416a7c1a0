#ifndef COHORT_COMMON_PLUGIN_PLUGIN_REGISTRY_H_
#define COHORT_COMMON_PLUGIN_PLUGIN_REGISTRY_H_

#include "common/plugin/plugin_info.h"

namespace cohort {

// What a plugin adds its classes to, each as a function that returns the class. A program calls
// only the functions of the kinds that it uses:
//
//   sources, transforms       chief, worker, evaluator, `cohort`
//   layers, losses, metrics   chief, evaluator, `cohort`; a worker gets their operations
//   finalizers                chief, evaluator, `cohort`
//
// A class whose name is taken is an error of the plugin, and the program does not start.
class PluginRegistry {
 public:
  virtual void AddSource(SourceClass (*make)()) = 0;
  virtual void AddTransform(TransformClass (*make)()) = 0;
  virtual void AddFinalizer(FinalizerClass (*make)()) = 0;
  virtual void AddLayer(LayerClass (*make)()) = 0;
  virtual void AddLoss(LossClass (*make)()) = 0;
  virtual void AddMetric(MetricClass (*make)()) = 0;

 protected:
  ~PluginRegistry() = default;
};

}  // namespace cohort

// Makes a shared library a plugin. It stands once in a library, outside of namespaces:
//
//   COHORT_PLUGIN(registry) {
//     registry->AddSource(WavesSource);
//     registry->AddLayer(ScaleLayer);
//   }
#define COHORT_PLUGIN(registry)                                                              \
  extern "C" {                                                                               \
  __attribute__((visibility("default"))) extern const cohort::PluginInfo cohort_plugin_info; \
  constinit const cohort::PluginInfo cohort_plugin_info = cohort::ThisPluginInfo();          \
  __attribute__((visibility("default"))) void cohort_plugin_register(                        \
      cohort::PluginRegistry* registry);                                                     \
  }                                                                                          \
  void cohort_plugin_register(cohort::PluginRegistry* registry)

#endif  // COHORT_COMMON_PLUGIN_PLUGIN_REGISTRY_H_
