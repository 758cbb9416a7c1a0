#include "worker/worker_service.h"

#include "proto/worker.pb.h"

namespace cohort {

void WorkerService::Send(Adoption::Connection connection, const v1::WorkerToChief& message) {
  chiefs_.Send(connection, message);
}

StreamServer::Methods WorkerService::Methods(WorkerCore* core, const Clock* clock) {
  using Connection = Adoption::Connection;
  return {{"/cohort.v1.Worker/Control",
           chiefs_.Serve(clock, {.on_message =
                                     [core](Connection connection, v1::ChiefToWorker* message) {
                                       core->OnMessage(connection, message);
                                     },
                                 .on_closed =
                                     [core](Connection connection, ChiefLoss loss) {
                                       core->OnClosed(connection, loss);
                                     }})}};
}

}  // namespace cohort
