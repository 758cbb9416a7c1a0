// The transforms, one line each: `X(Cast)` stands for the function CastTransform, which a file of
// this folder defines.
#define COHORT_TRANSFORMS(X) \
  X(Cast)                    \
  X(Equals)                  \
  X(Rescaling)               \
  X(Stack)                   \
  X(StringLookup)
