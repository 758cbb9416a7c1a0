// The layers, one line each: `X(Dense)` stands for the function DenseLayer, which a file of this
// folder defines.
#define COHORT_LAYERS(X)    \
  X(Activation)             \
  X(Add)                    \
  X(Concatenate)            \
  X(Dense)                  \
  X(Dropout)                \
  X(Embedding)              \
  X(Flatten)                \
  X(GlobalAveragePooling1D) \
  X(Input)                  \
  X(MaxPooling1D)           \
  X(Multiply)               \
  X(Reshape)
