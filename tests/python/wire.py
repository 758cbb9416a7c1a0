"""A client of Cohort's services made from proto/ with grpcio-tools: any language could do the same.

    stubs = wire.generate(directory)
    chief = wire.Stream(stubs, address, "Control")
    client = wire.Stream(stubs, address, "PushPull")
"""
import atexit
import functools
import glob
import importlib
import os
import queue
import sys
import tempfile
import types

import grpc
import grpc_tools.protoc

import real_cluster


def generate(directory):
    """Generates the Python modules of proto/ into `directory`; a namespace with all their messages."""
    files = sorted(glob.glob(os.path.join(real_cluster.SOURCE, "proto", "*.proto")))
    code = grpc_tools.protoc.main(["protoc", "-I" + real_cluster.SOURCE, "--python_out=" + directory,
                                   "--grpc_python_out=" + directory, *files])
    assert code == 0 and files, "protoc failed"
    sys.path.insert(0, directory)
    names = types.SimpleNamespace()
    for file in files:
        base = os.path.basename(file).removesuffix(".proto")
        for module in (base + "_pb2", base + "_pb2_grpc"):
            names.__dict__.update(vars(importlib.import_module("proto." + module)))
    return names


def optimizer(stubs, name, **arguments):
    """An OptimizerSpec: optimizer(stubs, "SGD", learning_rate=0.1, nesterov=True)."""
    spec = stubs.OptimizerSpec(rule=stubs.ClassConfig(class_name=name))
    for key, value in arguments.items():
        argument = spec.rule.config[key]
        if isinstance(value, bool):
            argument.b = value
        else:
            argument.f = value
    return spec


def protocol(stubs):
    """The version that this client speaks: kProtocolVersion of common/cluster/protocol_version.h."""
    return stubs.ProtocolVersion(major=2)


class Stream:
    """One stream with a task. Messages are sent at once and received in the order in which they come."""

    def __init__(self, stubs, address, method, service="ParameterServer", raw=False, limit_s=60.0, metadata=None):
        self._channel = grpc.insecure_channel(address, options=[
            ("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)])
        grpc.channel_ready_future(self._channel).result(timeout=limit_s * real_cluster.SCALE)
        self._requests = queue.SimpleQueue()
        if raw:  # bytes in, bytes out
            call = self._channel.stream_stream("/cohort.v1.%s/%s" % (service, method))
        else:
            call = getattr(getattr(stubs, service + "Stub")(self._channel), method)
        self._call = call(iter(self._requests.get, None), timeout=limit_s * real_cluster.SCALE, metadata=metadata)

    def send(self, message):
        self._requests.put(message)

    def receive(self):
        return next(self._call)

    def ask(self, message):
        self.send(message)
        return self.receive()

    def end(self):
        """Ends the requests; the stream's final grpc.StatusCode and its details."""
        self._requests.put(None)
        try:
            for _ in self._call:
                pass
        except grpc.RpcError:
            pass
        code, details = self._call.code(), self._call.details()
        self._channel.close()
        return code, details


@functools.cache
def checkpoint_directory():
    """Fields of AdoptPs: a directory of this process with a token, without which a server works for no chief."""
    directory = tempfile.TemporaryDirectory(prefix="cohort-test.")
    atexit.register(directory.cleanup)
    token = ".cohort-token-%016x" % 1
    with open(os.path.join(directory.name, token), "wb"):
        pass
    return {"checkpoint_dir": directory.name, "directory_token": token}


class Chief:
    """The control stream of a chief that has adopted a parameter server."""

    def __init__(self, stubs, address, index=0, generation=1, job="by hand"):
        self._stubs = stubs
        self._stream = Stream(stubs, address, "Control")
        self.generation = generation
        self._request = 0
        self.hello = self.ask(adopt=stubs.AdoptPs(
            job=job, chief_incarnation=7, protocol_version=protocol(stubs),
            expected=stubs.TaskId(type="ps", index=index), **checkpoint_directory())).hello

    def ask(self, **body):
        """Sends one message and returns its answer; AssertionError if that is an error."""
        self._request += 1
        answer = self._stream.ask(self._stubs.ChiefToPs(generation=self.generation, request=self._request,
                                                        **body))
        assert answer.request == self._request and answer.status.code == 0, answer
        return answer

    def assign(self, layout, timeline=1, term=1):
        """Makes the server serve the layout's tablets from their initializers; their numbers."""
        answer = self.ask(assign=self._stubs.AssignTablets(layout=layout, ps=0, timeline=timeline, term=term))
        return list(answer.assigned.tablets)

    def settle(self, watermark):
        """Settles every closure below `watermark`; returns when the server has received it."""
        self._stream.send(self._stubs.ChiefToPs(
            generation=self.generation, watermark=self._stubs.AdvanceWatermark(settled_watermark=watermark)))
        self.ask(ping=self._stubs.Ping())

    def finish(self):
        """Tells the task that the job is finished."""
        self._stream.send(self._stubs.ChiefToPs(
            generation=self.generation, shutdown=self._stubs.ShutdownTask(reason="done", job_finished=True)))
        return self._stream.end()
