// The transforms, one line each: `X(Cast)` stands for the function CastTransform, which a file of
// this folder defines.
#define COHORT_TRANSFORMS(X)                      \
  X(AugMix)                                       \
  X(AutoContrast)                                 \
  X(Cast)                                         \
  X(CategoryEncoding)                             \
  X(CenterCrop)                                   \
  X(ContrastLimitedAdaptiveHistogramEqualization) \
  X(CutMix)                                       \
  X(Date)                                         \
  X(Discretization)                               \
  X(Equalization)                                 \
  X(Equals)                                       \
  X(Expression)                                   \
  X(HashedCrossing)                               \
  X(Hashing)                                      \
  X(IntegerLookup)                                \
  X(MixUp)                                        \
  X(Normalization)                                \
  X(RandAugment)                                  \
  X(RandomBrightness)                             \
  X(RandomColorDegeneration)                      \
  X(RandomColorJitter)                            \
  X(RandomContrast)                               \
  X(RandomCrop)                                   \
  X(RandomElasticTransform)                       \
  X(RandomErasing)                                \
  X(RandomFlip)                                   \
  X(RandomGaussianBlur)                           \
  X(RandomGrayscale)                              \
  X(RandomHue)                                    \
  X(RandomInvert)                                 \
  X(RandomPerspective)                            \
  X(RandomPosterization)                          \
  X(RandomRotation)                               \
  X(RandomSaturation)                             \
  X(RandomSharpness)                              \
  X(RandomShear)                                  \
  X(RandomTranslation)                            \
  X(RandomZoom)                                   \
  X(Rescaling)                                    \
  X(Reshape)                                      \
  X(Resizing)                                     \
  X(Solarization)                                 \
  X(Stack)                                        \
  X(StringLookup)                                 \
  X(TextVectorization)
