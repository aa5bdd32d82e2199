# SPDX-License-Identifier: BSD-3-Clause
"""What must not be: it raises, and does not crash or go wrong later."""
import unittest

import wherry
from kit import HOST, LoopCase, pair, run_child

# Every class of the module, made in all ways that Python has; then every method of what was made.
MAKES = """
import copy, wherry._core as core
for name, made in sorted(vars(core).items()):
    if not isinstance(made, type) or made.__module__ != "wherry._core":
        continue
    if name in ("Context", "Worker", "DeviceMemory", "Cursor", "Accumulator"):
        continue
    if issubclass(made, tuple) or "__dict__" in dir(made) or issubclass(made, Exception):
        continue
    for how in (made, lambda: made.__new__(made), lambda: type("Sub", (made,), {})()):
        try:
            how()
        except TypeError:
            continue
        raise SystemExit(f"a {name} was made")
    print(name)
"""


class Making(unittest.TestCase):
    def test_classes_that_only_functions_make(self):
        code, out, err = run_child(MAKES)
        self.assertEqual(code, 0, err)
        names = out.split()
        for name in ("Endpoint", "Frame", "Listener", "Message", "Request", "Type"):
            self.assertIn(name, names)


class Arguments(LoopCase):
    async def test_handlers_that_cannot_be_called(self):
        with self.assertRaisesRegex(TypeError, "accept: 5"):
            wherry.Worker(accept=5)
        async with pair() as (a, b):
            with self.assertRaisesRegex(TypeError, "set_am: 5"):
                a.worker.set_am(1, 5)
            with self.assertRaisesRegex(TypeError, "on_lost: 5"):
                a.on_lost(5)

    async def test_zero_bytes_in_hosts(self):
        with self.assertRaisesRegex(ValueError, "zero byte"):
            wherry.listen(None, HOST + "\0.example")
        with self.assertRaisesRegex(ValueError, "zero byte"):
            wherry.connect(HOST + "\0.example", 1)


if __name__ == "__main__":
    unittest.main()
