# SPDX-License-Identifier: BSD-3-Clause
"""wherry.topology: machines in files of hwloc's, made-up trees of /sys, a made-up NVML, and this one."""
import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import types
import unittest
import xml.etree.ElementTree as ElementTree
from unittest import mock

from wherry import topology
from wherry.topology import __main__ as command

HERE = pathlib.Path(__file__).parent / "topologies"

DGX1 = """\
          GPU0  GPU1  GPU2  GPU3  GPU4  GPU5  GPU6  GPU7  enp1s0f0  mlx5_0  mlx5_1  mlx5_2  mlx5_3  CPU affinity  NUMA
GPU0      X     NV1   NV1   NV2   NV2   SYS   SYS   SYS   PHB       PIX     PHB     SYS     SYS     0-3,8-11      0
GPU1      NV1   X     NV2   NV1   SYS   NV2   SYS   SYS   PHB       PIX     PHB     SYS     SYS     0-3,8-11      0
GPU2      NV1   NV2   X     NV2   SYS   SYS   NV1   SYS   PHB       PHB     PIX     SYS     SYS     0-3,8-11      0
GPU3      NV2   NV1   NV2   X     SYS   SYS   SYS   NV1   PHB       PHB     PIX     SYS     SYS     0-3,8-11      0
GPU4      NV2   SYS   SYS   SYS   X     NV1   NV1   NV2   SYS       SYS     SYS     PIX     PHB     4-7,12-15     1
GPU5      SYS   NV2   SYS   SYS   NV1   X     NV2   NV1   SYS       SYS     SYS     PIX     PHB     4-7,12-15     1
GPU6      SYS   SYS   NV1   SYS   NV1   NV2   X     NV2   SYS       SYS     SYS     PHB     PIX     4-7,12-15     1
GPU7      SYS   SYS   SYS   NV1   NV2   NV1   NV2   X     SYS       SYS     SYS     PHB     PIX     4-7,12-15     1
enp1s0f0  PHB   PHB   PHB   PHB   SYS   SYS   SYS   SYS   X         PHB     PHB     SYS     SYS     0-3,8-11      0
mlx5_0    PIX   PIX   PHB   PHB   SYS   SYS   SYS   SYS   PHB       X       PHB     SYS     SYS     0-3,8-11      0
mlx5_1    PHB   PHB   PIX   PIX   SYS   SYS   SYS   SYS   PHB       PHB     X       SYS     SYS     0-3,8-11      0
mlx5_2    SYS   SYS   SYS   SYS   PIX   PIX   PHB   PHB   SYS       SYS     SYS     X       PHB     4-7,12-15     1
mlx5_3    SYS   SYS   SYS   SYS   PHB   PHB   PIX   PIX   SYS       SYS     SYS     PHB     X       4-7,12-15     1

NUMA  CPUs       memory     devices
0     0-3,8-11   256.0 GiB  GPU0 GPU1 GPU2 GPU3 enp1s0f0 mlx5_0 mlx5_1
1     4-7,12-15  256.0 GiB  GPU4 GPU5 GPU6 GPU7 mlx5_2 mlx5_3
"""

DUAL = """\
        eno1  mlx5_0  CPU affinity  NUMA
eno1    X     SYS     0-7           0
mlx5_0  SYS   X       8-15          1

NUMA  CPUs  memory    devices
0     0-7   64.0 GiB  eno1
1     8-15  64.0 GiB  mlx5_0

device  PCI           what
eno1    0000:17:00.0  eno1
mlx5_0  0000:81:00.0  ib0

X    the device itself
SYS  the interconnect between NUMA nodes
"""

VM = """\
      eth0  CPU affinity  NUMA
eth0  X     0-1           0

NUMA  CPUs  memory    devices
0     0-1   11.3 GiB  eth0

device  PCI           what
eth0    0000:00:03.0  eth0

X  the device itself
"""

# A tree of /sys: two GPUs and a network device below two chained switches, a device of another host
# bridge of the node, and one far away.
TREE = """\
        GPU0  GPU1  mlx5_0  eth1  eth2  CPU affinity  NUMA
GPU0    X     PXB   PIX     NODE  SYS   0-3           0
GPU1    PXB   X     PXB     NODE  SYS   0-3           0
mlx5_0  PIX   PXB   X       NODE  SYS   0-3           0
eth1    NODE  NODE  NODE    X     SYS   0-3           0
eth2    SYS   SYS   SYS     SYS   X     -             -
"""


def words(text):
    return [line.split() for line in text.splitlines()]


class Tree:
    """A root folder with a made-up /sys."""

    def __init__(self, folder):
        self.root = pathlib.Path(folder)

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")

    def node(self, index, cpus):
        self.write(f"sys/devices/system/node/node{index}/cpulist", cpus)
        self.write(f"sys/devices/system/node/node{index}/meminfo",
                   f"Node {index} MemTotal:       1048576 kB\nNode {index} MemFree: 1 kB")

    def device(self, path, kind, vendor, numa=0, cpus="0-3", **names):
        """A PCI device at a path below /sys/devices; names: net and infiniband."""
        folder = f"sys/devices/{path}"
        for name, text in (("class", f"0x{kind}00"), ("vendor", f"0x{vendor}"),
                           ("numa_node", str(numa)), ("local_cpulist", cpus)):
            self.write(f"{folder}/{name}", text)
        for what, name in names.items():
            (self.root / folder / what / name).mkdir(parents=True)
        link = self.root / "sys/bus/pci/devices" / folder.rpartition("/")[2]
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(os.path.relpath(self.root / folder, link.parent))

    def driver(self, pci, minor, there):
        self.write(f"proc/driver/nvidia/gpus/{pci}/information",
                   f"Model: \t\t Tesla T{minor}\nGPU UUID: \t GPU-{minor}\nDevice Minor: \t {minor}")
        if there:
            self.write(f"dev/nvidia{minor}", "")


class InFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)


class Files(InFolder):
    def test_dgx1(self):
        text = topology.matrix(topology.from_xml(HERE / "dgx1.xml"))
        self.assertEqual(text[:len(DGX1)], DGX1)
        self.assertIn("GPU7      0000:8a:00.0  Tesla V100-SXM2-16GB GPU-0", text)
        self.assertIn("\nmlx5_3    0000:8b:00.0  ib3\n", text)
        self.assertTrue(text.endswith("NV#  that many NVLinks\n"), text)

    def test_dgx1_without_nvlink(self):
        """hwloc that does not know NVML writes no distances: what is left is PCI."""
        text = (HERE / "dgx1.xml").read_text().replace("NVLinkBandwidth", "Other")
        (self.folder / "x.xml").write_text(text)
        found = topology.from_xml(self.folder / "x.xml")
        relations = [found.relation(found.gpus[0], gpu) for gpu in found.gpus]
        self.assertEqual(relations, ["X", "PIX", "PHB", "PHB", "SYS", "SYS", "SYS", "SYS"])

    def test_dual_cpu_in_both_versions(self):
        for name in ("dual-cpu.xml", "dual-cpu-v1.xml"):
            self.assertEqual(topology.matrix(topology.from_xml(HERE / name)), DUAL, name)

    def test_virtual_machine(self):
        self.assertEqual(topology.matrix(topology.from_xml(HERE / "vm.xml")), VM)

    def test_nearest(self):
        found = topology.from_xml(HERE / "dgx1.xml")
        nearest = [[nic.name for nic in found.nearest(gpu, found.nics)] for gpu in found.gpus]
        self.assertEqual(nearest, [["mlx5_0"]] * 2 + [["mlx5_1"]] * 2 + [["mlx5_2"]] * 2
                         + [["mlx5_3"]] * 2)

    def refused(self, text, why):
        (self.folder / "bad.xml").write_bytes(text if isinstance(text, bytes) else text.encode())
        with self.assertRaisesRegex(ValueError, rf"bad\.xml: .*{why}"):
            topology.from_xml(self.folder / "bad.xml")

    def test_what_is_refused(self):
        vm = (HERE / "vm.xml").read_text()
        bomb = '<!DOCTYPE t [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><topology>&b;</topology>'
        for text, why in (
                ("", "no element found"), ("<topology", "unclosed token"), (b"\0\1\2", "not well-formed"),
                ("<html/>", "no topology"), ("<topology/>", "no topology"),
                (bomb, "declarations"), ('<!DOCTYPE t [<!ELEMENT t ANY>]><t/>', "declarations"),
                ("<topology>" + "<object>" * 5000, "nested"),
                (vm.replace("UTF-8", "UxF-8"), "unknown encoding"),
                (vm.replace('version="2.0"', 'version="3.0"'), "version 3.0"),
                (vm.replace('cpuset="0x00000003"', 'cpuset="many"'), "cpuset='many'"),
                (vm.replace('cpuset="0x00000003"', 'cpuset="0xf...f"'), "cpuset='0xf...f'"),
                (vm.replace('cpuset="0x00000003"', 'cpuset="' + "," * 9999 + '"'), "65536 bits"),
                (vm.replace("0000:00:03.0", "../../etc"), "'../../etc' is no PCI address"),
                (vm.replace('osdev_type="2"', 'osdev_type="x"'), "osdev_type='x'"),
                (vm.replace('"NUMANode" os_index="0"', '"NUMANode" os_index="-1"'), "os_index='-1'")):
            with self.subTest(why):
                self.refused(text, why)

    def test_broken_matrix_of_nvlinks(self):
        dgx1 = (HERE / "dgx1.xml").read_text()
        self.refused(dgx1.replace("1000000 25000", "1000000", 1), "63 values for 8 devices")
        self.refused(dgx1.replace("1000000 25000", "1000000 fast", 1).replace(
            "25000 1000000", "fast 1000000", 1), "'fast' is no bandwidth")

    def test_a_file_cut_anywhere_is_refused_or_read(self):
        whole = (HERE / "vm.xml").read_bytes()
        for length in range(0, len(whole) - 12, 37):
            self.refused(whole[:length], "")

    def test_too_large(self):
        with open(self.folder / "bad.xml", "wb") as file:
            file.truncate((64 << 20) + 1)
        with self.assertRaisesRegex(ValueError, "bad.xml: larger than 64 MiB"):
            topology.from_xml(self.folder / "bad.xml")

    def test_what_is_no_file(self):
        """It has no size to be believed, and may have no end, or never begin."""
        os.mkfifo(self.folder / "fifo")
        for path in ("/dev/zero", self.folder / "fifo", self.folder):
            with self.subTest(path), self.assertRaisesRegex(ValueError, "no regular file"):
                topology.from_xml(path)

    def test_a_file_that_is_larger_than_it_says(self):
        with mock.patch("wherry.topology._xml.SIZE_LIMIT", 100):  # of which the system says that it is of 0 bytes
            with self.assertRaisesRegex(ValueError, "cpuinfo: larger than"):
                topology.from_xml("/proc/cpuinfo")

    def test_no_file(self):
        with self.assertRaises(FileNotFoundError):
            topology.from_xml(self.folder / "missing.xml")


class Machines(InFolder):
    def tree(self):
        tree = Tree(self.folder)
        tree.node(0, "0-3")
        tree.node(1, "4-7")
        top = "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0"
        tree.device(f"{top}/0000:03:00.0", "0302", "10de")
        tree.device(f"{top[:-13]}/0000:02:01.0/0000:07:00.0", "0207", "15b3", infiniband="mlx5_0", net="ib0")
        tree.device(f"{top[:-13]}/0000:02:02.0/0000:08:00.0/0000:09:00.0/0000:0a:00.0", "0300", "10de")
        tree.device("pci0000:40/0000:40:01.0", "0200", "8086", net="eth1")
        tree.device("pci0000:80/0000:80:01.0", "0200", "8086", numa=-1, cpus="", net="eth2")
        tree.device("pci0000:00/0000:00:02.0", "0300", "1a03")  # of the board's controller
        tree.device("pci0000:00/0000:00:03.0", "0200", "8086")  # with a driver of user space
        return tree

    def test_a_made_up_tree(self):
        text = topology.matrix(topology.from_machine(self.tree().root))
        self.assertEqual(words(text)[:6], words(TREE))
        self.assertIn("\n0     0-3   1.0 GiB  GPU0 GPU1 mlx5_0 eth1\n", text)
        self.assertIn("\nmlx5_0  0000:07:00.0  ib0\n", text)

    def test_gpus_of_a_container(self):
        """The driver lists all; there is a file for those that may be used."""
        tree = self.tree()
        tree.driver("0000:03:00.0", 0, False)
        tree.driver("0000:0a:00.0", 1, True)
        gpu, = topology.from_machine(tree.root).gpus
        self.assertEqual((gpu.name, gpu.index, gpu.pci, gpu.model, gpu.uuid),
                         ("GPU0", 0, "0000:0a:00.0", "Tesla T1", "GPU-1"))

    def test_an_empty_tree(self):
        found = topology.from_machine(self.folder)
        self.assertEqual(found.nodes[0].cpus, tuple(sorted(os.sched_getaffinity(0))))
        self.assertEqual(found.devices, ())

    def test_this_machine(self):
        found = topology.from_machine()
        self.assertTrue(found.nodes)
        self.assertLessEqual(os.sched_getaffinity(0), {cpu for node in found.nodes for cpu in node.cpus})
        self.assertIn("NUMA", topology.matrix(found))

    def test_cpu_lists(self):
        from wherry.topology._model import parse_cpu_list
        for text, cpus in (("", ()), ("0", (0,)), ("0-2,5", (0, 1, 2, 5))):
            self.assertEqual(parse_cpu_list(text + "\n"), cpus)
            self.assertEqual(topology.cpu_list(cpus), text)
        for bad in ("x", "3-1", "0-99999999", "1,,2"):
            with self.assertRaises(ValueError, msg=bad):
                parse_cpu_list(bad)


class NVMLError(Exception):
    pass


class MadeUpNvml(types.ModuleType):
    """NVML of a few GPUs: links[i] lists what each link of GPU i leads to: a GPU, "switch" or None."""

    NVML_NVLINK_MAX_LINKS = 18
    NVMLError = NVMLError

    def __init__(self, links, driver=True):
        super().__init__("pynvml")
        self.links, self.driver, self.open = links, driver, 0

    def nvmlInit(self):
        if not self.driver:
            raise NVMLError("driver not loaded")
        self.open += 1

    def nvmlShutdown(self):
        self.open -= 1

    def nvmlDeviceGetCount(self):
        return len(self.links)

    def nvmlDeviceGetHandleByIndex(self, index):
        return index

    def nvmlDeviceGetPciInfo(self, index):
        return types.SimpleNamespace(busId=f"0000000{index}:03:00.0".encode())

    def nvmlDeviceGetName(self, index):
        return b"H100"

    def nvmlDeviceGetUUID(self, index):
        return f"GPU-{index}"

    def nvmlDeviceGetNvLinkState(self, index, link):
        if link >= len(self.links[index]):
            raise NVMLError("invalid argument")
        return self.links[index][link] is not None

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, index, link):
        return 2 if self.links[index][link] == "switch" else 0

    def nvmlDeviceGetNvLinkRemotePciInfo(self, index, link):
        return self.nvmlDeviceGetPciInfo(self.links[index][link])


class Nvml(unittest.TestCase):
    def read(self, *args, **options):
        from wherry.topology import _nvml
        nvml = MadeUpNvml(*args, **options)
        before = sys.modules.get("pynvml")
        sys.modules["pynvml"] = nvml
        try:
            return _nvml.read()
        finally:
            self.assertEqual(nvml.open, 0)
            del sys.modules["pynvml"]
            if before:
                sys.modules["pynvml"] = before

    def test_links(self):
        told = self.read([[1, 1, None, 2], [0, 0], [0]])
        self.assertEqual(told.gpus["0000:03:00.0"], ("H100", "GPU-0"))
        self.assertEqual(told.links, {frozenset(("0000:03:00.0", "0001:03:00.0")): 2,
                                      frozenset(("0000:03:00.0", "0002:03:00.0")): 1})

    def test_switches(self):
        told = self.read([["switch"] * 18, ["switch"] * 18, ["switch"] * 17])
        self.assertEqual(sorted(told.links.values()), [17, 17, 18])

    def test_no_driver(self):
        self.assertIsNone(self.read([], driver=False))

    def test_a_question_that_fails(self):
        for name in ("nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetPciInfo", "nvmlDeviceGetUUID"):
            with self.subTest(name), mock.patch.object(MadeUpNvml, name, side_effect=NVMLError("GPU is lost")):
                self.assertIsNone(self.read([["switch"]]))


class Command(InFolder):
    def run_it(self, *args):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = command.main([str(arg) for arg in args])
            except SystemExit as ended:
                code = ended.code
        return code, out.getvalue(), err.getvalue()

    def test_table(self):
        self.assertEqual(self.run_it("--xml", HERE / "vm.xml"), (0, VM, ""))
        code, out, err = self.run_it()
        self.assertEqual((code, err), (0, ""))
        self.assertIn("NUMA", out)

    def test_json(self):
        code, out, _ = self.run_it("--json", "--xml", HERE / "dgx1.xml")
        told = json.loads(out)
        self.assertEqual(code, 0)
        self.assertEqual(told["matrix"]["GPU0"]["GPU3"], "NV2")
        self.assertEqual(told["nodes"][1]["cpus"], [4, 5, 6, 7, 12, 13, 14, 15])
        self.assertEqual(told["nics"][1]["netdev"], "ib0")
        self.assertEqual(len(told["links"]), 16)

    def test_pictures(self):
        for name, gpus, links, switches in (("dgx1", 8, 16, 4), ("dual-cpu", 0, 0, 0), ("vm", 0, 0, 0)):
            file = self.folder / f"{name}.svg"
            self.assertEqual(self.run_it("--xml", HERE / f"{name}.xml", "--svg", file), (0, "", ""))
            tree = ElementTree.parse(file)
            texts = [item.text for item in tree.iter("{http://www.w3.org/2000/svg}text")]
            self.assertEqual(len([text for text in texts if text.startswith("GPU")]), gpus)
            self.assertEqual(texts.count("PCIe switch"), switches)
            self.assertEqual(len(list(tree.iter("{http://www.w3.org/2000/svg}path"))), links)
            self.inside(tree.getroot())

    def inside(self, root):
        """Each box lies within the picture."""
        width, height = int(root.get("width")), int(root.get("height"))
        for box in root.iter("{http://www.w3.org/2000/svg}rect"):
            x, y, w, h = (int(box.get(name)) for name in ("x", "y", "width", "height"))
            self.assertTrue(0 < x < x + w < width and 0 < y < y + h < height, box.attrib)

    def test_names_in_a_picture_are_text(self):
        text = (HERE / "vm.xml").read_text().replace('"eth0"', '"&lt;script&gt;"')
        (self.folder / "x.xml").write_text(text)
        self.run_it("--xml", self.folder / "x.xml", "--svg", self.folder / "x.svg")
        self.assertIn("&lt;script&gt;", (self.folder / "x.svg").read_text())

    def test_failures(self):
        for args, code, why in (
                (("--xml", self.folder / "none.xml"), 1, "No such file"),
                (("--xml", __file__), 1, "not well-formed"),
                (("--svg", self.folder / "no" / "folder.svg"), 1, "No such file"),
                (("--svg", "x", "--json"), 2, "exclude each other"), (("--fly",), 2, "--fly")):
            ended, out, err = self.run_it(*args)
            self.assertEqual((ended, out), (code, ""), err)
            self.assertIn(why, err)


if __name__ == "__main__":
    unittest.main()
