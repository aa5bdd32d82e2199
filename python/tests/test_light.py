# SPDX-License-Identifier: BSD-3-Clause
"""What a start does not load, and that asyncio is there as soon as a program imports it."""
import subprocess
import sys
import textwrap
import unittest

from kit import ENV, LIMIT

HEAVY = {"asyncio", "ast", "concurrent.futures", "inspect", "logging", "numpy", "pathlib", "pickle", "platform", "re", "ssl",
         "subprocess", "traceback", "typing"}


class Light(unittest.TestCase):
    def run_it(self, program, *options):
        """What a program prints, which must say nothing else."""
        made = subprocess.run([sys.executable, *options, "-c", textwrap.dedent(program)], env=ENV, text=True, timeout=LIMIT,
                              capture_output=True)
        self.assertEqual((made.returncode, made.stderr), (0, ""))
        return made.stdout

    def loads(self, program):
        """Of the modules that take long, those that a program loads; not what the interpreter has at its start (-I -S)."""
        text = f"import sys\nsys.path[:0] = {ENV['PYTHONPATH'].split(':')!r}\n" + textwrap.dedent(program)
        out = self.run_it(text + "\nprint(*sys.modules)", "-I", "-S")
        return HEAVY.intersection(out.split())

    def test_import(self):
        self.assertEqual(self.loads("import wherry"), set())
        self.assertEqual(self.loads("import wherry.charm"), set())

    def test_program_without_asyncio(self):
        self.assertEqual(self.loads("""
            from wherry.charm import Chare, Group, charm

            class Hello(Chare):
                async def greet(self, name):
                    await charm.sleep(0.001)
                    return f"hello {name}"

            async def main(args):
                assert await Group(Hello).greet("you", ret=True) == ["hello you"]
                charm.exit()
            charm.start(main)"""), set())

    def test_import_in_an_entry(self):
        self.assertEqual(self.run_it("""
            from wherry.charm import Chare, charm

            class Late(Chare):
                async def work(self):
                    import asyncio
                    assert asyncio.current_task() is not None
                    async with asyncio.timeout(5) if hasattr(asyncio, "timeout") else asyncio.Lock():
                        await asyncio.sleep(0.001)
                    await asyncio.gather(asyncio.sleep(0.001), asyncio.sleep(0.001))
                    return asyncio.get_running_loop() is not None

            async def main(args):
                late = Chare(Late, onPE=0)
                print(await late.work(ret=True), await late.work(ret=True))
                charm.exit()
            charm.start(main)"""), "True True\n")

    def test_import_in_another_thread(self):
        self.assertEqual(self.run_it("""
            import threading
            from wherry.charm import charm

            async def main(args):
                thread = threading.Thread(target=lambda: __import__("asyncio"))
                thread.start()
                thread.join()
                await charm.sleep(0.001)
                import asyncio
                await asyncio.sleep(0.001)
                print("slept")
                charm.exit()
            charm.start(main)"""), "slept\n")

    def test_who_only_looks_for_it(self):
        """A search for the module is no import, and keeps no later one from being heard."""
        self.assertEqual(self.run_it("""
            import importlib.util
            from wherry.charm import charm

            async def main(args):
                assert importlib.util.find_spec("asyncio") is not None
                import asyncio
                await asyncio.sleep(0.001)
                print("slept")
                charm.exit()
            charm.start(main)"""), "slept\n")

    def test_import_in_another_thread_at_the_end(self):
        """A thread that is still loading it when the program ends loads it to the end, and writes to no descriptor of others."""
        self.assertEqual(self.run_it("""
            import importlib.util, os, threading
            from wherry.charm import charm

            found, ended = threading.Event(), threading.Event()

            def load():
                spec = importlib.util.find_spec("asyncio")
                module = importlib.util.module_from_spec(spec)
                found.set()
                ended.wait()
                import sys
                sys.modules["asyncio"] = module
                spec.loader.exec_module(module)
                print(hasattr(module, "run"))
            thread = threading.Thread(target=load)

            def main(args):
                thread.start()
                found.wait()
                charm.exit()
            charm.start(main)
            pipes = [os.pipe() for _ in range(8)]
            ended.set()
            thread.join()
            for there, here in pipes:
                os.close(here)
                assert os.read(there, 1) == b""
            """), "True\n")

    def test_a_signal_handler_ends_a_wait(self):
        """Wherever the signal finds the PE."""
        self.assertEqual(self.run_it("""
            import os, signal
            from wherry.charm import Future, charm

            waited = []

            def ends(*ignored):
                if waited:
                    waited.pop().take_value(1)
            signal.signal(signal.SIGALRM, ends)

            async def main(args):
                signal.setitimer(signal.ITIMER_REAL, 0.0001, 0.0001)
                for _ in range(3000):
                    future = Future()
                    waited.append(future)
                    await future
                signal.setitimer(signal.ITIMER_REAL, 0)
                print("ended")
                charm.exit()
            charm.start(main)"""), "ended\n")

    def test_generators(self):
        self.assertEqual(self.run_it("""
            from wherry.charm import charm

            async def numbers():
                try:
                    yield 1
                    yield 2
                finally:
                    await charm.sleep(0.001)
                    print("closed")

            async def main(args):
                async for number in numbers():
                    break
                await charm.sleep(0.05)
                print(number)
                charm.exit()
            charm.start(main)"""), "closed\n1\n")


if __name__ == "__main__":
    unittest.main()
