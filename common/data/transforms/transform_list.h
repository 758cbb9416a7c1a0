// The transforms, one line each: `X(Cast)` stands for the function CastTransform, which a file of
// this folder defines.
#define COHORT_TRANSFORMS(X) \
  X(Cast)                    \
  X(CenterCrop)              \
  X(Equals)                  \
  X(RandomCrop)              \
  X(RandomFlip)              \
  X(RandomRotation)          \
  X(RandomZoom)              \
  X(Rescaling)               \
  X(Reshape)                 \
  X(Resizing)                \
  X(Stack)                   \
  X(StringLookup)
