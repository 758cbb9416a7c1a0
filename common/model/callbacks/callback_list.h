#ifndef COHORT_COMMON_MODEL_CALLBACKS_CALLBACK_LIST_H_
#define COHORT_COMMON_MODEL_CALLBACKS_CALLBACK_LIST_H_

// Every callback: X(Name) for a function NameCallback() in a file of this folder.
#define COHORT_CALLBACKS(X) \
  X(BackupAndRestore)       \
  X(CSVLogger)              \
  X(EarlyStopping)          \
  X(LambdaCallback)         \
  X(LearningRateScheduler)  \
  X(ModelCheckpoint)        \
  X(ReduceLROnPlateau)      \
  X(RemoteMonitor)          \
  X(SwapEMAWeights)         \
  X(TensorBoard)            \
  X(TerminateOnNaN)

#endif  // COHORT_COMMON_MODEL_CALLBACKS_CALLBACK_LIST_H_
