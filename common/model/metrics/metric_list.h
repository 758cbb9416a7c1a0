// The metrics, one line each: `X(BinaryAccuracy)` stands for the function BinaryAccuracyMetric,
// which a file of this folder defines.
#define COHORT_METRICS(X)          \
  X(Accuracy)                      \
  X(AUC)                           \
  X(BinaryAccuracy)                \
  X(CategoricalAccuracy)           \
  X(MeanAbsoluteError)             \
  X(MeanSquaredError)              \
  X(Precision)                     \
  X(Recall)                        \
  X(RootMeanSquaredError)          \
  X(SparseCategoricalAccuracy)     \
  X(SparseTopKCategoricalAccuracy) \
  X(TopKCategoricalAccuracy)
