#include "common/metrics/finalizers.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "common/base/status.h"

namespace cohort {
namespace {

using Numbers = std::span<const double>;

double Divide(double a, double b) { return b == 0 ? 0 : a / b; }

double Mean(const Config&, std::span<const Numbers> a) { return Divide(a[0][0], a[1][0]); }

double RootMean(const Config& config, std::span<const Numbers> a) {
  return std::sqrt(Mean(config, a));
}

double Single(const Config&, std::span<const Numbers> a) { return a[0][0]; }

// The counts at each threshold, from the lowest to the highest. Every prediction exceeds the lowest
// threshold, so the counts there are those of all positives and all negatives.
struct Counts {
  Numbers true_positives;
  Numbers false_positives;

  size_t size() const { return std::min(true_positives.size(), false_positives.size()); }
  double positives() const { return true_positives[0]; }
  double predicted(size_t i) const { return true_positives[i] + false_positives[i]; }
  double recall(size_t i) const { return Divide(true_positives[i], positives()); }
  double precision(size_t i) const { return Divide(true_positives[i], predicted(i)); }
  double false_positive_rate(size_t i) const {
    return Divide(false_positives[i], false_positives[0]);
  }
};

// interpolate_pr_auc of keras/src/metrics/confusion_metrics.py (Davis and Goadrich, 2006).
double InterpolatedPrecisionRecall(const Counts& c) {
  double area = 0;
  for (size_t i = 0; i + 1 < c.size(); ++i) {
    const double dtp = c.true_positives[i] - c.true_positives[i + 1];
    const double here = c.predicted(i), next = c.predicted(i + 1);
    const double slope = Divide(dtp, std::max(here - next, 0.0));
    const double intercept = c.true_positives[i + 1] - slope * next;
    const double ratio = here > 0 && next > 0 ? here / next : 1;
    area += Divide(slope * (dtp + intercept * std::log(ratio)), std::max(c.positives(), 0.0));
  }
  return area;
}

// Riemann's sum under the curve (x, y), from the lowest threshold to the highest.
double Auc(const Config& config, std::span<const Numbers> a) {
  const Counts c{a[0], a[1]};
  const bool roc = config.String("curve") == "ROC";
  const std::string& method = config.String("summation_method");
  if (!roc && method == "interpolation") return InterpolatedPrecisionRecall(c);
  double area = 0;
  for (size_t i = 0; i + 1 < c.size(); ++i) {
    const double y = roc ? c.recall(i) : c.precision(i);
    const double y_next = roc ? c.recall(i + 1) : c.precision(i + 1);
    const double height = method == "interpolation" ? (y + y_next) / 2
                          : method == "minoring"    ? std::min(y, y_next)
                                                    : std::max(y, y_next);
    const double width = roc ? c.false_positive_rate(i) - c.false_positive_rate(i + 1)
                             : c.recall(i) - c.recall(i + 1);
    area += width * height;
  }
  return area;
}

std::vector<FinalizerClass> AllFinalizers() {
  return {{{"Mean", {}, "A sum divided by the number of its terms.", {}}, {kTotal, kCount}, Mean},
          {{"RootMean", {}, "The square root of a mean.", {}}, {kTotal, kCount}, RootMean},
          {{"Single", {}, "The only accumulator: a sum, a minimum or a maximum.", {}}, {}, Single},
          {{"AUC",
            {},
            "The area under a curve.",
            {String("curve", "The curve.").Default("ROC").OneOf({"ROC", "PR"}),
             String("summation_method", "How the area between two thresholds is computed.")
                 .Default("interpolation")
                 .OneOf({"interpolation", "minoring", "majoring"})}},
           {"true_positives", "false_positives"},
           Auc}};
}

const v1::ClassConfig& MeanConfig() {
  static const auto& config = *new v1::ClassConfig(ClassOf("Mean"));
  return config;
}

}  // namespace

ClassRegistry<FinalizerClass>& Finalizers() {
  static auto& registry = *new ClassRegistry<FinalizerClass>(
      "finalizer", SchemaSet::Spelling::kKeras, "", AllFinalizers());
  return registry;
}

bool IsMean(const FinalizerConfig& finalizer) {
  return finalizer == nullptr || finalizer->class_name() == "Mean";
}

size_t FinalizerBytes(const FinalizerConfig& finalizer) {
  return finalizer == nullptr ? 0 : finalizer->ByteSizeLong();
}

absl::StatusOr<FinalizerConfig> MakeFinalizer(const v1::ClassConfig& given,
                                              std::span<const std::string> accumulators) {
  COHORT_ASSIGN_OR_RETURN(const FinalizerClass* known, Finalizers().Find(given.class_name()));
  COHORT_ASSIGN_OR_RETURN(v1::ClassConfig config, CompleteConfig(known->schema, given));
  const auto lacks = std::find_if(
      known->accumulators.begin(), known->accumulators.end(), [&](const std::string& name) {
        return std::find(accumulators.begin(), accumulators.end(), name) == accumulators.end();
      });
  if (lacks != known->accumulators.end()) {
    return InvalidArgument("the finalizer {} needs the accumulator '{}'; there are {}",
                           config.class_name(), *lacks, fmt::join(accumulators, ", "));
  }
  if (known->accumulators.empty() && accumulators.size() != 1) {
    return InvalidArgument("the finalizer {} takes one accumulator, not {}", config.class_name(),
                           accumulators.size());
  }
  return std::make_shared<const v1::ClassConfig>(std::move(config));
}

absl::StatusOr<double> Finalize(const MetricState& state) {
  std::vector<std::string> names;
  for (const Accumulator& a : state.accumulators) {
    if (a.values.empty()) return InvalidArgument("accumulator '{}' has no values", a.name);
    names.push_back(a.name);
  }
  const v1::ClassConfig& given = state.finalizer == nullptr ? MeanConfig() : *state.finalizer;
  COHORT_ASSIGN_OR_RETURN(const FinalizerConfig config, MakeFinalizer(given, names));
  COHORT_ASSIGN_OR_RETURN(const FinalizerClass* known, Finalizers().Find(config->class_name()));
  std::vector<Numbers> read;
  for (const std::string& name : known->accumulators) {
    const auto at = std::find(names.begin(), names.end(), name) - names.begin();
    read.emplace_back(state.accumulators[static_cast<size_t>(at)].values);
  }
  if (known->accumulators.empty()) read.emplace_back(state.accumulators[0].values);
  return known->finalize(Config(*config), read);
}

}  // namespace cohort
