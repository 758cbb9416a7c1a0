// The transforms, one line each: `X(Cast)` stands for the function CastTransform, which a file of
// this folder defines.
#define COHORT_TRANSFORMS(X) \
  X(AutoContrast)            \
  X(Cast)                    \
  X(CategoryEncoding)        \
  X(CenterCrop)              \
  X(Discretization)          \
  X(Equals)                  \
  X(HashedCrossing)          \
  X(Hashing)                 \
  X(IntegerLookup)           \
  X(Normalization)           \
  X(RandomBrightness)        \
  X(RandomContrast)          \
  X(RandomCrop)              \
  X(RandomErasing)           \
  X(RandomFlip)              \
  X(RandomGrayscale)         \
  X(RandomHue)               \
  X(RandomInvert)            \
  X(RandomPosterization)     \
  X(RandomRotation)          \
  X(RandomSaturation)        \
  X(RandomShear)             \
  X(RandomTranslation)       \
  X(RandomZoom)              \
  X(Rescaling)               \
  X(Reshape)                 \
  X(Resizing)                \
  X(Solarization)            \
  X(Stack)                   \
  X(StringLookup)            \
  X(TextVectorization)
