#include "common/placement/initializer_classes.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/base/status.h"
#include "common/placement/orthogonal.h"
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

// VarianceScaling, whose distributions are those of three classes.
void ScaleVariance(double scale, std::string_view mode, std::string_view distribution,
                   std::span<const int64_t> dims, v1::InitializerSpec* spec) {
  const auto [fan_in, fan_out] = Fans(dims);
  const auto in = static_cast<double>(fan_in), out = static_cast<double>(fan_out);
  const double fan = mode == "fan_in" ? in : mode == "fan_out" ? out : (in + out) / 2;
  const double variance = scale / std::max(1.0, fan);
  if (distribution == "uniform") {
    spec->set_class_name("RandomUniform");
    spec->set_maxval(std::sqrt(3 * variance));
    spec->set_minval(-spec->maxval());
    return;
  }
  // The standard deviation of the normal distribution between -2 and 2.
  constexpr double kTruncated = 0.87962566103423978;
  const bool truncated = distribution != "untruncated_normal";
  spec->set_class_name(truncated ? "TruncatedNormal" : "RandomNormal");
  spec->set_mean(0);
  spec->set_stddev(std::sqrt(variance) / (truncated ? kTruncated : 1));
}

absl::Status MakeVarianceScaling(const Config& config, std::span<const int64_t> dims,
                                 v1::InitializerSpec* spec) {
  if (config.Float("scale") <= 0) {
    return InvalidArgument("VarianceScaling: scale must be above 0, not {}", config.Float("scale"));
  }
  ScaleVariance(config.Float("scale"), config.String("mode"), config.String("distribution"), dims,
                spec);
  return absl::OkStatus();
}

absl::Status MakeOnes(const Config&, std::span<const int64_t>, v1::InitializerSpec* spec) {
  spec->set_value(1);
  return absl::OkStatus();
}

absl::Status MakeZeros(const Config&, std::span<const int64_t>, v1::InitializerSpec*) {
  return absl::OkStatus();
}

// Rows and columns are in the fields of the fans, and the gain in that of the value.
absl::Status MakeIdentity(const Config& config, std::span<const int64_t> dims,
                          v1::InitializerSpec* spec) {
  if (dims.size() != 2) return InvalidArgument("Identity needs a matrix, not {} axes", dims.size());
  spec->set_fan_in(static_cast<uint64_t>(dims[0]));
  spec->set_fan_out(static_cast<uint64_t>(dims[1]));
  spec->set_value(config.Float("gain"));
  return absl::OkStatus();
}

absl::Status MakeOrthogonal(const Config& config, std::span<const int64_t> dims,
                            v1::InitializerSpec* spec) {
  if (dims.size() < 2) return InvalidArgument("Orthogonal needs two axes at least");
  uint64_t rows = 1;
  for (const int64_t size : dims.subspan(0, dims.size() - 1)) rows *= static_cast<uint64_t>(size);
  spec->set_fan_in(rows);
  spec->set_fan_out(static_cast<uint64_t>(dims.back()));
  spec->set_value(config.Float("gain"));
  return CheckOrthogonalSize(spec->fan_in(), spec->fan_out());
}

absl::Status MakeGlorotUniform(const Config&, std::span<const int64_t> dims,
                               v1::InitializerSpec* spec) {
  const auto [fan_in, fan_out] = Fans(dims);
  spec->set_fan_in(fan_in);
  spec->set_fan_out(fan_out);
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

Argument Seed() { return Int("seed", "Seed of its own; none: that of the job.").Optional(); }
Argument Gain() { return Float("gain", "The factor of the matrix.").Default(1.0); }

// Keras' arguments of the classes that scale the variance by fans.
std::vector<Argument> FanArguments() {
  return {Seed(), Planned("input_axes"), Planned("output_axes")};
}

std::vector<Argument> NormalArguments() {
  return {Float("mean", "Its mean.").Default(0),
          Float("stddev", "Its standard deviation.").Default(0.05).AtLeast(0), Seed()};
}

std::vector<Argument> VarianceScalingArguments() {
  std::vector<Argument> arguments = {
      Float("scale", "The variance times the fan.").Default(1.0).AtLeast(0),
      String("mode", "Which fan: inputs, outputs, or their mean.")
          .Default("fan_in")
          .OneOf({"fan_in", "fan_out", "fan_avg"}),
      String("distribution", "normal is truncated_normal.")
          .Default("truncated_normal")
          .OneOf({"normal", "truncated_normal", "uniform", "untruncated_normal"})};
  for (Argument& argument : FanArguments()) arguments.push_back(std::move(argument));
  return arguments;
}

// A distribution whose variance depends on the fans.
InitializerClass Scaled(std::string_view name, std::string_view doc, double scale,
                        std::string_view mode, std::string_view distribution) {
  return {{std::string(name), {}, std::string(doc), FanArguments()},
          [=](const Config&, std::span<const int64_t> dims, v1::InitializerSpec* spec) {
            ScaleVariance(scale, mode, distribution, dims, spec);
            return absl::OkStatus();
          }};
}

std::vector<InitializerClass> Classes() {
  return {
      {{"Constant", {}, "Every element has one value.", {Float("value", "The value.").Default(0)}},
       MakeConstant},
      {{"GlorotUniform",
        {},
        "Uniform, narrower the more inputs and outputs the weights connect.",
        FanArguments()},
       MakeGlorotUniform},
      Scaled("GlorotNormal", "As GlorotUniform, but a truncated normal distribution.", 1, "fan_avg",
             "truncated_normal"),
      Scaled("HeNormal", "A truncated normal distribution of variance 2 / inputs, for relu.", 2,
             "fan_in", "truncated_normal"),
      Scaled("HeUniform", "As HeNormal, but uniform.", 2, "fan_in", "uniform"),
      {{"Identity", {"IdentityInitializer"}, "1 on the diagonal of a matrix.", {Gain()}},
       MakeIdentity},
      Scaled("LecunNormal", "A truncated normal distribution of variance 1 / inputs, for selu.", 1,
             "fan_in", "truncated_normal"),
      Scaled("LecunUniform", "As LecunNormal, but uniform.", 1, "fan_in", "uniform"),
      {{"Orthogonal",
        {"OrthogonalInitializer"},
        "A matrix whose columns, or rows if they are fewer, are orthonormal.",
        {Gain(), Seed()}},
       MakeOrthogonal},
      {{"TruncatedNormal",
        {},
        "A normal distribution without what is beyond two standard deviations.",
        NormalArguments()},
       MakeRandomNormal},
      {{"VarianceScaling",
        {},
        "Has the mean 0 and the variance scale / fan.",
        VarianceScalingArguments()},
       MakeVarianceScaling},
      {{"Ones", {"one"}, "Every element is 1.", {}}, MakeOnes},
      {{"RandomNormal", {"normal"}, "A normal distribution.", NormalArguments()}, MakeRandomNormal},
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
      "initializer", SchemaSet::Spelling::kKeras, "STFT STFTInitializer stft", Classes());
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
