// The losses, one line each: `X(Huber)` stands for the function HuberLoss, which a file of this
// folder defines.
#define COHORT_LOSSES(X)                \
  X(BinaryCrossentropy)                 \
  X(BinaryFocalCrossentropy)            \
  X(CategoricalCrossentropy)            \
  X(CategoricalFocalCrossentropy)       \
  X(CategoricalGeneralizedCrossEntropy) \
  X(CategoricalHinge)                   \
  X(ChosenCrossentropy)                 \
  X(CosineSimilarity)                   \
  X(Dice)                               \
  X(Hinge)                              \
  X(Huber)                              \
  X(KLDivergence)                       \
  X(LogCosh)                            \
  X(MeanAbsoluteError)                  \
  X(MeanAbsolutePercentageError)        \
  X(MeanSquaredError)                   \
  X(MeanSquaredLogarithmicError)        \
  X(Poisson)                            \
  X(SparseCategoricalCrossentropy)      \
  X(SquaredHinge)                       \
  X(Traced)                             \
  X(Tversky)
