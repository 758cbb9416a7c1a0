#include "common/metrics/finalizers.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "common/base/status.h"

namespace cohort {
namespace {

using Numbers = std::span<const double>;

double Divide(double a, double b) { return b == 0 ? 0 : a / b; }

double At(Numbers a, size_t i) { return i < a.size() ? a[i] : 0; }

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

// A point of a curve: precision and recall, or what the curve has in their place.
struct Point {
  double x, y;
};

// The gains of precision and recall (Flach and Kull, 2015), as AUC of Keras computes them.
Point Gains(const Counts& c, size_t i) {
  const double tp = c.true_positives[i];
  if (tp == 0) return {0, 1};
  const double scale = Divide(c.positives(), c.false_positives[0]);
  const double recall = 1 - scale * (c.positives() - tp) / tp;
  return {std::max(recall, 0.0), 1 - scale * c.false_positives[i] / tp};
}

Point PointOf(const std::string& curve, const Counts& c, size_t i) {
  if (curve == "ROC") return {c.false_positive_rate(i), c.recall(i)};
  if (curve == "PR") return {c.recall(i), c.precision(i)};
  return Gains(c, i);
}

// Riemann's sum under the curve, from the lowest threshold to the highest.
double AreaUnder(const Config& config, const Counts& c) {
  const std::string& curve = config.String("curve");
  const std::string& method = config.String("summation_method");
  if (curve == "PR" && method == "interpolation") return InterpolatedPrecisionRecall(c);
  double area = 0;
  for (size_t i = 0; i + 1 < c.size(); ++i) {
    const Point here = PointOf(curve, c, i), next = PointOf(curve, c, i + 1);
    const double height = method == "interpolation" ? (here.y + next.y) / 2
                          : method == "minoring"    ? std::min(here.y, next.y)
                                                    : std::max(here.y, next.y);
    area += (here.x - next.x) * height;
  }
  return area;
}

// The mean over labels, whose counts lie one after the other.
double Auc(const Config& config, std::span<const Numbers> a) {
  const size_t labels =
      std::min(static_cast<size_t>(config.Int("num_labels")), std::min(a[0].size(), a[1].size()));
  const size_t points = std::min(a[0].size(), a[1].size()) / labels;
  std::vector<double> weights(labels, 1.0);
  if (!config.IsNone("label_weights")) weights = config.Floats("label_weights");
  double sum = 0, weight = 0;
  for (size_t i = 0; i < std::min(labels, weights.size()); ++i) {
    const Counts counts{a[0].subspan(i * points, points), a[1].subspan(i * points, points)};
    sum += weights[i] * AreaUnder(config, counts);
    weight += weights[i];
  }
  return Divide(sum, weight);
}

// The mean over groups of the area under ROC. A group whose labels are all equal has none.
double GroupAuc(const Config& config, std::span<const Numbers> a) {
  const size_t points = std::min(a[0].size(), a[1].size());
  const size_t groups = std::min(static_cast<size_t>(config.Int("num_groups")), points);
  const size_t n = points / groups;
  const bool weighted = config.String("average") == "weighted";
  double sum = 0, weight = 0;
  for (size_t i = 0; i < groups; ++i) {
    const Counts counts{a[0].subspan(i * n, n), a[1].subspan(i * n, n)};
    if (counts.positives() <= 0 || counts.false_positives[0] <= 0) continue;
    const double records = weighted ? counts.predicted(0) : 1;
    double area = 0;
    for (size_t k = 0; k + 1 < n; ++k) {
      area += (counts.false_positive_rate(k) - counts.false_positive_rate(k + 1)) *
              (counts.recall(k) + counts.recall(k + 1)) / 2;
    }
    sum += records * area;
    weight += records;
  }
  return Divide(sum, weight);
}

// The share of the counts on the diagonal of a square.
double Diagonal(const Config&, std::span<const Numbers> a) {
  const auto classes = static_cast<size_t>(std::lround(std::sqrt(a[0].size())));
  double diagonal = 0, all = 0;
  for (const double count : a[0]) all += count;
  for (size_t i = 0; i < classes; ++i) diagonal += At(a[0], i * classes + i);
  return Divide(diagonal, all);
}

double RateOf(const std::string& rate, std::span<const Numbers> a, size_t i) {
  const double tp = a[0][i], fp = a[1][i], positives = a[2][0], negatives = a[3][0];
  if (rate == "precision") return Divide(tp, tp + fp);
  if (rate == "specificity") return Divide(negatives - fp, negatives);
  return Divide(tp, positives);  // recall, which is sensitivity
}

// The largest value of one rate at those thresholds where another one reaches a bound.
double Best(const Config& config, std::span<const Numbers> a) {
  double best = 0;
  for (size_t i = 0; i < std::min(a[0].size(), a[1].size()); ++i) {
    if (RateOf(config.String("bounded"), a, i) < config.Float("bound")) continue;
    best = std::max(best, RateOf(config.String("rate"), a, i));
  }
  return best;
}

constexpr double kEpsilon = 1e-7;  // keras.backend.epsilon()

// keras/src/metrics/f_score_metrics.py
double FBeta(const Config& config, std::span<const Numbers> a) {
  const double square = config.Float("beta") * config.Float("beta");
  const bool weighted = config.String("average") == "weighted";
  double all = kEpsilon, sum = 0;
  for (const double weight : a[3]) all += weight;
  for (size_t i = 0; i < a[0].size(); ++i) {
    const double tp = a[0][i];
    const double precision = tp / (tp + At(a[1], i) + kEpsilon);
    const double recall = tp / (tp + At(a[2], i) + kEpsilon);
    const double score =
        precision * recall / (square * precision + recall + kEpsilon) * (1 + square);
    sum += weighted ? score * At(a[3], i) / all : score / static_cast<double>(a[0].size());
  }
  return sum;
}

// keras/src/metrics/iou_metrics.py: the mean over the classes that occur.
double MeanIou(const Config&, std::span<const Numbers> a) {
  double sum = 0, classes = 0;
  for (size_t i = 0; i < a[0].size(); ++i) {
    const double either = At(a[1], i) + At(a[2], i) - a[0][i];
    if (either <= 1e-9) continue;
    sum += a[0][i] / (either + kEpsilon);
    classes += 1;
  }
  return sum / (classes + kEpsilon);
}

// R2Score of keras/src/metrics/regression_metrics.py.
double R2(const Config& config, std::span<const Numbers> a) {
  const auto outputs = static_cast<double>(a[0].size());
  const bool by_variance = config.String("class_aggregation") == "variance_weighted_average";
  double sum = 0, weight = 0;
  for (size_t i = 0; i < a[0].size(); ++i) {
    const double total = a[0][i] - At(a[1], i) * (At(a[1], i) / At(a[3], i));
    double score = 1 - At(a[2], i) / total;
    if (std::isinf(score)) score = 0;
    sum += by_variance ? total * score : score / outputs;
    weight += total;
  }
  const double score = by_variance ? sum / weight : sum;
  const double samples = a[4][0];
  const auto regressors = static_cast<double>(config.Int("num_regressors"));
  if (regressors == 0 || regressors >= samples - 1) return score;
  return 1 - (1 - score) * (samples - 1) / (samples - regressors - 1);
}

// The mean cross entropy, divided by that of a model which always predicts the mean label.
double NormalizedEntropy(const Config&, std::span<const Numbers> a) {
  const double rate = Divide(a[2][0], a[1][0]);
  if (rate <= 0 || rate >= 1) return 0;
  const double entropy = -rate * std::log(rate) - (1 - rate) * std::log(1 - rate);
  return Divide(a[0][0], a[1][0]) / entropy;
}

Argument RateArgument(std::string_view name, std::string_view doc) {
  return String(name, doc).OneOf({"precision", "recall", "sensitivity", "specificity"});
}

std::vector<FinalizerClass> AllFinalizers() {
  return {
      {{"Mean", {}, "A sum divided by the number of its terms.", {}}, {kTotal, kCount}, Mean},
      {{"RootMean", {}, "The square root of a mean.", {}}, {kTotal, kCount}, RootMean},
      {{"Single", {}, "The only accumulator: a sum, a minimum or a maximum.", {}}, {}, Single},
      {{"AUC",
        {},
        "The area under a curve.",
        {String("curve", "The curve.").Default("ROC").OneOf({"ROC", "PR", "PRGAIN"}),
         String("summation_method", "How the area between two thresholds is computed.")
             .Default("interpolation")
             .OneOf({"interpolation", "minoring", "majoring"}),
         Int("num_labels", "Curves, whose areas are averaged.").Default(1).AtLeast(1),
         Floats("label_weights", "The weight of each curve.").Optional()}},
       {"true_positives", "false_positives"},
       Auc},
      {{"GroupAUC",
        {},
        "The mean over groups of the area under ROC.",
        {Int("num_groups", "The groups.").AtLeast(1), String("average", "How groups are averaged.")
                                                          .Default("weighted")
                                                          .OneOf({"weighted", "macro"})}},
       {"true_positives", "false_positives"},
       GroupAuc},
      {{"ConfusionMatrix", {}, "The share of the diagonal of a matrix of counts.", {}},
       {"confusion_matrix"},
       Diagonal},
      {{"Best",
        {},
        "The largest value of a rate at the thresholds where another rate reaches a bound.",
        {RateArgument("rate", "What is maximized."), RateArgument("bounded", "The other rate."),
         Float("bound", "Its least value.")}},
       {"true_positives", "false_positives", "positives", "negatives"},
       Best},
      {{"FBeta",
        {},
        "The weighted harmonic mean of precision and recall, averaged over classes.",
        {Float("beta", "The weight of recall.").Default(1.0),
         String("average", "How classes are averaged.")
             .Default("macro")
             .OneOf({"macro", "weighted"})}},
       {"true_positives", "false_positives", "false_negatives", "weights"},
       FBeta},
      {{"IoU", {}, "The mean over classes of intersection over union.", {}},
       {"true_positives", "predicted", "labels"},
       MeanIou},
      {{"R2",
        {},
        "The share of the variance of labels that predictions explain.",
        {String("class_aggregation", "How outputs are averaged.")
             .Default("uniform_average")
             .OneOf({"uniform_average", "variance_weighted_average"}),
         Int("num_regressors", "The independent variables of an adjusted score.").Default(0)}},
       {"squared_sum", "sum", "residual", kCount, "num_samples"},
       R2},
      {{"NormalizedEntropy", {}, "A mean cross entropy divided by that of the mean label.", {}},
       {kTotal, kCount, "positives"},
       NormalizedEntropy}};
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
