# SPDX-License-Identifier: BSD-3-Clause
"""The programs of examples/python, run as their first lines say."""
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from kit import ENV, LIMIT

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples" / "python"


def start(name, *args):
    return subprocess.Popen([sys.executable, EXAMPLES / name, *map(str, args)],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENV)


class Examples(unittest.TestCase):
    def run_one(self, name, *args):
        process = start(name, *args)
        out, err = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 0, err)
        return out

    def serve(self, name, *args):
        """The port of a server that ends with the test."""
        process = start(name, *args)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return int(process.stdout.readline())

    def test_ten_lines(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        server = start("ten_lines.py", "serve", port)
        self.addCleanup(server.communicate)
        self.addCleanup(server.kill)
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:  # it does not say when it listens
            client = start("ten_lines.py", "ask", port)
            out, err = client.communicate(timeout=LIMIT)
            if client.returncode == 0 or "RefusedError" not in err:
                break
        self.assertEqual((client.returncode, out), (0, "hello, client\n"), err)
        text = (EXAMPLES / "ten_lines.py").read_text().split("import wherry")[1]
        self.assertEqual(sum(bool(line.strip()) for line in text.splitlines()) - 1, 10)

    def test_echo_and_blocking_client(self):
        out = self.run_one("blocking_client.py", self.serve("echo_server.py"))
        self.assertIn("answers in", out)
        self.assertIn("recv: not within 0.1 s", out)

    def test_files(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "shared").mkdir()
            content = bytes(range(256)) * 10_000
            (folder / "mine").write_bytes(content)
            port = self.serve("files.py", "serve", folder / "shared")
            self.run_one("files.py", "put", port, folder / "mine", "theirs")
            self.assertEqual((folder / "shared" / "theirs").read_bytes(), content)
            self.run_one("files.py", "get", port, "theirs", folder / "back")
            self.assertEqual((folder / "back").read_bytes(), content)
            for wrong in ("nothing", "../mine"):
                process = start("files.py", "get", port, wrong, folder / "no")
                process.communicate(timeout=LIMIT)
                self.assertEqual(process.returncode, 1)

    def test_parameter_server(self):
        try:
            import numpy  # noqa: F401
        except ImportError:
            self.skipTest("numpy is not installed")
        self.assertRegex(self.run_one("parameter_server.py", 2), r"y = (2.9|3.0)\d x \+ -(1.9|2.0)")

    def test_halo(self):
        try:
            import numpy  # noqa: F401
        except ImportError:
            self.skipTest("numpy is not installed")
        self.assertIn("36.6 degrees inside the left half, 2.9 inside the right", self.run_one("halo.py"))

    def test_arrays(self):
        try:
            import numpy  # noqa: F401
        except ImportError:
            self.skipTest("numpy is not installed")
        with tempfile.TemporaryDirectory() as name:
            files = [pathlib.Path(name, str(size)) for size in (1, 5000, 300_000)]
            for path in files:
                path.write_bytes(b"ab" * (int(path.name) // 2) + b"z")
            server = start("arrays.py", "serve", 2)
            self.addCleanup(server.communicate)
            self.addCleanup(server.kill)
            port = int(server.stdout.readline())
            clients = [start("arrays.py", "send", port, *files) for _ in range(2)]
            total = sum(path.stat().st_size for path in files)
            for client in clients:
                out, err = client.communicate(timeout=LIMIT)
                self.assertEqual(client.returncode, 0, err)
                self.assertIn("3 arrays, 0 MB there and back", out)
            out, err = server.communicate(timeout=LIMIT)
            self.assertEqual((server.returncode, out),
                             (0, f"{2 * total} bytes, most often {ord('a')}\n"), err)

    def test_gpu(self):
        self.assertIn("5 arrays of 100000 elements have come", self.run_one("gpu.py"))

    def test_pipeline(self):
        self.assertIn("20 results", self.run_one("pipeline.py"))


if __name__ == "__main__":
    unittest.main()
