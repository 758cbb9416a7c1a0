// The sources, one line each: `X(Csv)` stands for the function CsvSource, which a file of this
// folder defines.
#define COHORT_SOURCES(X) \
  X(Csv)                  \
  X(Generator)            \
  X(Idx)                  \
  X(ImageFolder)          \
  X(JsonLines)            \
  X(Libsvm)               \
  X(Npy)                  \
  X(NpyClasses)           \
  X(Npz)                  \
  X(Parquet)              \
  X(TextFolder)           \
  X(TfRecord)
