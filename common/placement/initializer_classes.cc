#include "common/placement/initializer_classes.h"

#include <utility>

#include "common/base/status.h"
#include "proto/parameter_server.pb.h"

// keras/src/initializers: constant_initializers.py, random_initializers.py.

namespace cohort {
namespace {

// compute_fans of random_initializers.py.
std::pair<uint64_t, uint64_t> Fans(std::span<const int64_t> dims) {
  if (dims.empty()) return {1, 1};
  if (dims.size() == 1) return {dims[0], dims[0]};
  uint64_t receptive = 1;
  for (size_t i = 0; i + 2 < dims.size(); ++i) receptive *= static_cast<uint64_t>(dims[i]);
  return {static_cast<uint64_t>(dims[dims.size() - 2]) * receptive,
          static_cast<uint64_t>(dims.back()) * receptive};
}

absl::Status MakeConstant(const Config& config, std::span<const int64_t>,
                          v1::InitializerSpec* spec) {
  spec->set_value(config.Float("value"));
  return absl::OkStatus();
}

absl::Status MakeGlorotUniform(const Config&, std::span<const int64_t> dims,
                               v1::InitializerSpec* spec) {
  const auto [fan_in, fan_out] = Fans(dims);
  spec->set_fan_in(fan_in);
  spec->set_fan_out(fan_out);
  return absl::OkStatus();
}

absl::Status MakeOnes(const Config&, std::span<const int64_t>, v1::InitializerSpec* spec) {
  spec->set_value(1);
  return absl::OkStatus();
}

absl::Status MakeRandomNormal(const Config& config, std::span<const int64_t>,
                              v1::InitializerSpec* spec) {
  spec->set_mean(config.Float("mean"));
  spec->set_stddev(config.Float("stddev"));
  return absl::OkStatus();
}

absl::Status MakeRandomUniform(const Config& config, std::span<const int64_t>,
                               v1::InitializerSpec* spec) {
  spec->set_minval(config.Float("minval"));
  spec->set_maxval(config.Float("maxval"));
  if (spec->minval() <= spec->maxval()) return absl::OkStatus();
  return InvalidArgument("RandomUniform: minval {} exceeds maxval {}", spec->minval(),
                         spec->maxval());
}

absl::Status MakeZeros(const Config&, std::span<const int64_t>, v1::InitializerSpec*) {
  return absl::OkStatus();
}

Argument Seed() { return Int("seed", "Seed of its own; none: that of the job.").Optional(); }

std::vector<InitializerClass> Classes() {
  return {
      {{"Constant", {}, "Every element has one value.", {Float("value", "The value.").Default(0)}},
       MakeConstant},
      {{"GlorotUniform",
        {},
        "Uniform, narrower the more inputs and outputs the weights connect.",
        {Seed()}},
       MakeGlorotUniform},
      {{"Ones", {"one"}, "Every element is 1.", {}}, MakeOnes},
      {{"RandomNormal",
        {"normal"},
        "A normal distribution.",
        {Float("mean", "Its mean.").Default(0),
         Float("stddev", "Its standard deviation.").Default(0.05).AtLeast(0), Seed()}},
       MakeRandomNormal},
      {{"RandomUniform",
        {"uniform"},
        "A uniform distribution.",
        {Float("minval", "Its lower bound.").Default(-0.05),
         Float("maxval", "Its upper bound.").Default(0.05), Seed()}},
       MakeRandomUniform},
      {{"Zeros", {"zero"}, "Every element is 0.", {}}, MakeZeros},
  };
}

}  // namespace

const ClassRegistry<InitializerClass>& Initializers() {
  static const auto& initializers = *new ClassRegistry<InitializerClass>(
      "initializer", SchemaSet::Spelling::kKeras,
      "GlorotNormal HeNormal HeUniform Identity LecunNormal LecunUniform Orthogonal "
      "OrthogonalInitializer TruncatedNormal VarianceScaling glorot_normal he_normal he_uniform "
      "identity lecun_normal lecun_uniform orthogonal truncated_normal variance_scaling",
      Classes());
  return initializers;
}

const SchemaSet& InitializerSchemas() { return Initializers(); }

absl::StatusOr<v1::InitializerSpec> MakeInitializer(const v1::ClassConfig& config,
                                                    uint64_t job_seed,
                                                    std::span<const int64_t> dims) {
  COHORT_ASSIGN_OR_RETURN(const InitializerClass* c, Initializers().Find(config.class_name()));
  COHORT_ASSIGN_OR_RETURN(const v1::ClassConfig complete, CompleteConfig(c->schema, config));
  const Config arguments(complete);
  v1::InitializerSpec spec;
  spec.set_class_name(c->schema.name);
  const bool own_seed = c->schema.Find("seed") != nullptr && !arguments.IsNone("seed");
  spec.set_seed(own_seed ? static_cast<uint64_t>(arguments.Int("seed")) : job_seed);
  COHORT_RETURN_IF_ERROR(c->make(arguments, dims, &spec));
  return spec;
}

}  // namespace cohort
