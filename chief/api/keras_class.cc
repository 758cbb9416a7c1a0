#include "chief/api/keras_class.h"

#include "common/base/status.h"
#include "common/optimizers/optimizers.h"
#include "common/placement/initializer_classes.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

constexpr char kSparseUpdate[] = "sparse_update";

}  // namespace

KerasArgument::KerasArgument(const KerasClass& object) : value_(ConfigOf(object.config())) {}

KerasArgument::KerasArgument(const char* class_name,
                             const std::map<std::string, KerasArgument>& arguments)
    : KerasArgument(KerasClass(class_name, arguments)) {}

v1::ClassConfig KerasClass::config() const {
  v1::ClassConfig config;
  config.set_class_name(name);
  for (const auto& [argument, value] : arguments) {
    (*config.mutable_config())[argument] = value.value();
  }
  return config;
}

absl::StatusOr<v1::OptimizerSpec> MakeOptimizerSpec(const KerasClass& optimizer) {
  v1::ClassConfig config = optimizer.config();
  config.mutable_config()->erase(kSparseUpdate);
  const auto sparse = optimizer.arguments.find(kSparseUpdate);
  if (sparse == optimizer.arguments.end()) return MakeOptimizer(config, "");
  const v1::ConfigValue& text = sparse->second.value();
  if (!text.has_s()) {
    return InvalidArgument("argument \"{}\" of {} must be a string", kSparseUpdate, optimizer.name);
  }
  return MakeOptimizer(config, text.s());
}

absl::StatusOr<v1::InitializerSpec> MakeInitializerSpec(const KerasClass& initializer,
                                                        uint64_t seed,
                                                        std::span<const int64_t> dims) {
  return MakeInitializer(initializer.config(), seed, dims);
}

}  // namespace cohort
