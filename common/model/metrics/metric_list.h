// The metrics, one line each: `X(BinaryAccuracy)` stands for the function BinaryAccuracyMetric,
// which a file of this folder defines.
#define COHORT_METRICS(X)          \
  X(Accuracy)                      \
  X(AUC)                           \
  X(BinaryAccuracy)                \
  X(BinaryCrossentropy)            \
  X(BinaryIoU)                     \
  X(Calibration)                   \
  X(CategoricalAccuracy)           \
  X(CategoricalCrossentropy)       \
  X(CategoricalHinge)              \
  X(ChosenAccuracy)                \
  X(ConcordanceCorrelation)        \
  X(CosineSimilarity)              \
  X(F1Score)                       \
  X(FBetaScore)                    \
  X(FalseNegatives)                \
  X(FalsePositives)                \
  X(Hinge)                         \
  X(IoU)                           \
  X(KLDivergence)                  \
  X(LogCoshError)                  \
  X(MeanAbsoluteError)             \
  X(MeanAbsolutePercentageError)   \
  X(MeanIoU)                       \
  X(MeanSquaredError)              \
  X(MeanSquaredLogarithmicError)   \
  X(NormalizedEntropy)             \
  X(OneHotIoU)                     \
  X(OneHotMeanIoU)                 \
  X(PearsonCorrelation)            \
  X(Poisson)                       \
  X(Precision)                     \
  X(PrecisionAtRecall)             \
  X(R2Score)                       \
  X(Recall)                        \
  X(RecallAtPrecision)             \
  X(RootMeanSquaredError)          \
  X(SensitivityAtSpecificity)      \
  X(SparseCategoricalAccuracy)     \
  X(SparseCategoricalCrossentropy) \
  X(SparseTopKCategoricalAccuracy) \
  X(SpecificityAtSensitivity)      \
  X(SquaredHinge)                  \
  X(TopKCategoricalAccuracy)       \
  X(TrueNegatives)                 \
  X(TruePositives)
