"""Processes: the instances of an application, and Larder in front of one."""
import http.client
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from client import HOST

START_SECONDS = 90
STOP_SECONDS = 10
CONFIGURATIONS = {
    "default": "",
    "behind-tls": 'forwarded.trust = ["127.0.0.0/8"]\n',
}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def succeeds(port, path, host):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path, headers={"Host": host})
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


class Server:
    """A process on a loopback port, with a directory of its own and its output in a log there."""

    def __init__(self, name):
        self.name, self.port, self.process = name, free_port(), None
        self.directory = tempfile.mkdtemp(prefix=f"larder-{name}-")

    def command(self):
        raise NotImplementedError

    def environment(self):
        return dict(os.environ)

    def ready(self):
        raise NotImplementedError

    def launch(self):
        command, where = self.command()
        with open(os.path.join(self.directory, "log"), "a") as log:
            self.process = subprocess.Popen(command, cwd=where, env=self.environment(), stdout=log,
                                            stderr=log, start_new_session=True)

    def wait(self):
        end = time.monotonic() + START_SECONDS
        while not self.ready():
            if self.process.poll() is not None or time.monotonic() > end:
                with open(os.path.join(self.directory, "log")) as log:
                    raise RuntimeError(f"{self.name} did not start: {log.read()[-600:]}")
            time.sleep(0.1)

    def stop(self):
        if self.process is None or self.process.poll() is not None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, number)
                self.process.wait(STOP_SECONDS)
                return
            except (subprocess.TimeoutExpired, ProcessLookupError):
                continue

    def remove(self):
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)


class Application(Server):
    """An instance of an application; its state begins empty with each start."""

    def __init__(self, plan):
        super().__init__(plan["name"])
        self.plan = plan

    def command(self):
        return self.plan["start"], self.plan["directory"]

    def environment(self):
        state = os.path.join(self.directory, "state")
        shutil.rmtree(state, ignore_errors=True)
        os.mkdir(state)
        return {**os.environ, "PORT": str(self.port), "STATE": state, "NODE_ENV": "production",
                "NEXT_TELEMETRY_DISABLED": "1", "PYTHONDONTWRITEBYTECODE": "1"}

    def ready(self):
        return succeeds(self.port, "/news", HOST)


class Larder(Server):
    """Larder as a reverse proxy, with one of the configurations above and an empty cache."""

    def __init__(self, binary, origin_port, configuration):
        super().__init__("larder")
        self.binary, self.origin_port, self.admin = binary, origin_port, free_port()
        with open(os.path.join(self.directory, "larder.toml"), "w") as file:
            file.write(CONFIGURATIONS[configuration])

    def command(self):
        return [self.binary, "serve", "--config", os.path.join(self.directory, "larder.toml"),
                "--listen", f"127.0.0.1:{self.port}", "--admin", f"127.0.0.1:{self.admin}",
                "--reverse", f"http://127.0.0.1:{self.origin_port}",
                "--cache", os.path.join(self.directory, "cache"), "--cache-size", "64M"], None

    def ready(self):
        return succeeds(self.admin, "/readyz", "127.0.0.1")
