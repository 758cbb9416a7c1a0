#include "chief/api/keras_class.h"

#include "common/base/status.h"
#include "common/model/class_config.h"
#include "proto/job.pb.h"
#include "proto/parameter_server.pb.h"

namespace cohort {
namespace {

constexpr char kSparseUpdate[] = "sparse_update";

// The configs of optimizers and initializers hold numbers; a bool is 0 or 1.
template <typename Config>
absl::StatusOr<Config> NumbersOf(const KerasClass& given) {
  Config config;
  config.set_class_name(given.name);
  for (const auto& [name, value] : given.arguments) {
    if (name == kSparseUpdate) continue;
    double number = 0;
    if (const auto* b = std::get_if<bool>(&value)) {
      number = *b ? 1 : 0;
    } else if (const auto* i = std::get_if<int64_t>(&value)) {
      number = static_cast<double>(*i);
    } else if (const auto* f = std::get_if<double>(&value)) {
      number = *f;
    } else {
      return InvalidArgument("argument \"{}\" of {} must be a number, not the text \"{}\"", name,
                             given.name, std::get<std::string>(value));
    }
    (*config.mutable_config())[name] = number;
  }
  return config;
}

}  // namespace

absl::StatusOr<v1::OptimizerSpec> MakeOptimizerSpec(const KerasClass& optimizer) {
  COHORT_ASSIGN_OR_RETURN(auto config, NumbersOf<v1::OptimizerConfig>(optimizer));
  if (const auto sparse = optimizer.arguments.find(kSparseUpdate);
      sparse != optimizer.arguments.end()) {
    const auto* text = std::get_if<std::string>(&sparse->second);
    if (text == nullptr) {
      return InvalidArgument("argument \"{}\" of {} must be a text", kSparseUpdate, optimizer.name);
    }
    config.set_sparse_update(*text);
  }
  return MakeOptimizer(config);
}

absl::StatusOr<v1::InitializerSpec> MakeInitializerSpec(const KerasClass& initializer,
                                                        uint64_t seed,
                                                        std::span<const int64_t> dims) {
  COHORT_ASSIGN_OR_RETURN(const auto config, NumbersOf<v1::InitializerConfig>(initializer));
  return MakeInitializer(config, initializer.name, seed, dims);
}

}  // namespace cohort
