// The losses, one line each: `X(Huber)` stands for the function HuberLoss, which a file of this
// folder defines.
#define COHORT_LOSSES(X)     \
  X(BinaryCrossentropy)      \
  X(CategoricalCrossentropy) \
  X(Huber)                   \
  X(MeanAbsoluteError)       \
  X(MeanSquaredError)        \
  X(SparseCategoricalCrossentropy)
