// The registry of metrics.
#include "common/model/metrics/metric.h"
#include "common/model/metrics/metric_list.h"

namespace cohort {

#define COHORT_DECLARE(name) MetricClass name##Metric();
COHORT_METRICS(COHORT_DECLARE)
#undef COHORT_DECLARE

namespace {

// The classes of keras/src/metrics that are missing, with the names of functions.
constexpr std::string_view kPlannedMetrics =
    "Accuracy BCE BinaryCrossentropy BinaryIoU CategoricalCrossentropy CategoricalHinge "
    "CosineSimilarity F1Score FBetaScore FalseNegatives FalsePositives Hinge IoU KLDivergence "
    "LogCoshError MAPE MSLE Mean MeanAbsolutePercentageError MeanIoU MeanSquaredLogarithmicError "
    "OneHotIoU OneHotMeanIoU PearsonCorrelation Poisson PrecisionAtRecall R2Score "
    "RecallAtPrecision SensitivityAtSpecificity SparseCategoricalCrossentropy "
    "SpecificityAtSensitivity SquaredHinge TrueNegatives TruePositives bce binary_crossentropy "
    "categorical_crossentropy cosine_similarity f1_score hinge kl_divergence mape msle poisson "
    "sparse_categorical_crossentropy squared_hinge";

}  // namespace

ClassRegistry<MetricClass>& Metrics() {
#define COHORT_CALL(name) name##Metric(),
  static auto& metrics =
      *new ClassRegistry<MetricClass>("metric", SchemaSet::Spelling::kKeras,
                                      std::string(kPlannedMetrics), {COHORT_METRICS(COHORT_CALL)});
#undef COHORT_CALL
  return metrics;
}

}  // namespace cohort
