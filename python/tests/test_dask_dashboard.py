# SPDX-License-Identifier: BSD-3-Clause
"""The page "Wherry" of the scheduler's dashboard.

Needs distributed: tests/dask_env.py makes an environment that has it.  The page itself needs bokeh, too.
"""
import asyncio
import unittest
import urllib.error
import urllib.request
from unittest import mock

try:
    import dask
    from distributed import Scheduler

    from dask_kit import GOOD, SIZE, SOON, cluster, fetch, metrics, of, until
    from wherry.dask import _dashboard, _measure
    MISSING = None
except ImportError as error:
    MISSING = str(error)

try:
    from bokeh.document import Document
    from distributed.dashboard import scheduler as dashboard

    from wherry.dask import _page
    NO_PAGE = None
except ImportError as error:
    NO_PAGE = MISSING or f"there is no dashboard: {error}"


def get(made, page):
    """The status and the text of a page of a cluster's dashboard."""
    with urllib.request.urlopen(made.dashboard_link.replace("status", page), timeout=SOON) as answer:
        return answer.status, answer.read().decode()


def shown(scheduler):
    """What a browser gets of the page, as soon as it asks: the Page, and its document."""
    doc, made = Document(), []
    with mock.patch.object(_page, "add_periodic_callback", lambda doc, page, interval: made.append(page)):
        _page.page(scheduler, {"pages": ["status"]}, doc)
    doc.validate()
    doc.to_json()
    return made[0], doc


def cells(page, kind="host"):
    """(from, to) -> the rest of what the matrix has, by the names of the columns."""
    data = {heat.kind: heat for heat in page.heats}[kind].source.data
    rows = [dict(zip(data, row)) for row in zip(*data.values())]
    return {(row["source"], row["target"]): row for row in rows}


def rows(page):
    data = page.links.data
    return list(zip(*(data[name] for name in _page.ROW)))


@unittest.skipIf(NO_PAGE, NO_PAGE)
class Pages(unittest.TestCase):
    def test_what_it_shows(self):
        page, doc = shown(of({"x://a": ("one", GOOD), "x://b": ("two", {})}))
        self.assertEqual(doc.title, "Dask: Wherry")
        self.assertEqual(doc.template_variables["pages"], ["status"])
        cell, = cells(page).values()
        self.assertEqual((cell["source"], cell["target"], cell["rate"], cell["number"]), ("two", "one", 2, "2.00"))
        self.assertEqual((cell["quartiles"], cell["transfers"], cell["moved"], cell["lanes"]),
                         ("1.00 / 2.00 / 3.00", 3, "30 B", "shm (shm ring)"))
        self.assertEqual(rows(page), [("one", "two", "shm (shm ring)", 10, 20, 1)])
        self.assertIn("Workers: 2. Transfers of 1 MiB and more: 3, 30 B. Links: 1. Losses: 1.", page.summary.text)
        self.assertEqual([heat.kind for heat in page.heats if heat.root.visible], ["host"])

    def test_each_kind_of_memory_has_a_matrix(self):
        both = {"host": [1, 10, 1e9, 1e9, 1e9], "cuda": [1, 10, 4e9, 5e9, 6e9]}
        page, _ = shown(of({"x://a": (0, {"pairs": {"x://b": both}}), "x://b": (1, {})}))
        self.assertEqual([heat.kind for heat in page.heats if heat.root.visible], ["host", "cuda"])
        self.assertEqual([cells(page, kind)["1", "0"]["number"] for kind in ("host", "cuda")], ["1.00", "5.00"])

    def test_nothing_yet(self):
        for workers in ({}, {"x://a": (0, {})}, {"x://a": (0, None)}, {"x://a": (0, [1])}):
            page, _ = shown(of(workers))
            self.assertEqual((cells(page), rows(page)), ({}, []))

    def test_workers_come_and_go_while_it_is_shown(self):
        scheduler = of({"x://a": ("one", GOOD), "x://b": ("two", {})})
        page, doc = shown(scheduler)
        scheduler.workers.pop("x://b")
        page.show(_measure.read(scheduler))
        self.assertEqual(cells(page), {})
        self.assertEqual(page.heats[0].root.x_range.factors, ["one"])
        self.assertEqual(rows(page), [("one", "x://b (gone)", "shm (shm ring)", 10, 20, 1)])
        scheduler.workers.clear()
        page.show(_measure.read(scheduler))
        self.assertEqual(rows(page), [])
        scheduler.workers.update(of({"x://a": ("one", GOOD), "x://b": ("new", {})}).workers)
        page.show(_measure.read(scheduler))
        self.assertEqual(list(cells(page)), [("new", "one")])
        doc.to_json()

    def test_names_are_what_they_are(self):
        names = ["<b>&amp;", "a\nb", "a\x00b", "1", 1, "", "n" * 200, "n" * 199 + "m", "tcp://10.0.0.1:8786"]
        found = _page.labels(_measure.read(of({f"x://{i}": (name, {}) for i, name in enumerate(names)})).names)
        self.assertEqual(len(set(found.values())), len(names))
        self.assertEqual({found["x://0"], found["x://8"]}, {"<b>&amp;", "10.0.0.1:8786"})
        for label in found.values():
            self.assertTrue(label.isprintable())
            self.assertLessEqual(len(label), _page.LABEL + 4)
        page, _ = shown(of({"x://a": ("<script>", GOOD), "x://b": ("<script>", {})}))
        self.assertEqual(list(cells(page)), [("<script> (2)", "<script>")])
        self.assertNotIn("<", page.summary.text)  # which is the only one to be HTML

    def test_two_comes_before_ten(self):
        found = _page.labels({f"x://{name}": name for name in ("10", "9", "1")})
        self.assertEqual(list(found.values()), ["1", "9", "10"])

    def test_many_workers(self):
        names = [f"x://{n}" for n in range(_page.WORKERS + 3)]
        said = {name: {"pairs": {other: {"host": [3, 30, 1e9, 2e9, 3e9]} for other in names if other != name},
                       "links": {other: ["shm (shm ring)", n, 20, int(n == 7)] for other in names}}
                for n, name in enumerate(names)}
        page, doc = shown(of({name: (n, said[name]) for n, name in enumerate(names)}))
        self.assertEqual(len(cells(page)), _page.WORKERS * (_page.WORKERS - 1))
        self.assertEqual(len(page.heats[0].root.x_range.factors), _page.WORKERS)
        self.assertEqual({cell["number"] for cell in cells(page).values()}, {""})
        self.assertEqual(len(rows(page)), _page.LINKS)
        self.assertEqual({row[0] for row in rows(page)[:100]}, {"7"})  # losses come first
        self.assertIn(f"The matrix has {_page.WORKERS} of the workers. The table has {_page.LINKS} of",
                      page.summary.text)
        with mock.patch.object(page, "show") as show:
            page.update()  # it was drawn a moment ago, and that took long
        show.assert_not_called()

    def test_one_that_cannot_be_drawn_harms_nobody(self):
        with self.assertLogs("wherry.dask._page", "DEBUG") as told, \
                mock.patch.object(_page, "read", side_effect=KeyError("changed")) as read:
            page, _ = shown(of({}))
            page.update()
        self.assertEqual((len(told.output), read.call_count), (1, 1))
        self.assertIn("KeyError", told.output[0])
        self.assertIn("cannot be drawn", page.summary.text)


@unittest.skipIf(NO_PAGE, NO_PAGE)
class Dashboards(unittest.TestCase):
    def setUp(self):
        dashboard.applications.pop(_dashboard.PATH, None)  # as in a process that has had no scheduler yet

    def test_the_page_of_a_cluster(self):
        with cluster() as (made, client):
            one, other = metrics(client)
            fetch(client, one, other)
            until(lambda: metrics(client)[other]["pairs"])
            for name in ("wherry", "status", "workers"):
                status, text = get(made, name)
                self.assertEqual(status, 200)
                self.assertEqual(text.count('<a href="wherry">Wherry</a>'), 1, name)
            page, _ = shown(made.scheduler)
            names = _page.labels(_measure.read(made.scheduler).names)
            cell = cells(page)[names[one], names[other]]
            self.assertGreater(cell["rate"], 0)
            self.assertEqual((cell["transfers"], cell["moved"]), (1, "4.00 MiB"))
            self.assertTrue(cell["lanes"])
            row, = (row for row in rows(page) if row[:2] == (names[other], names[one]))
            self.assertGreaterEqual(row[4], SIZE)

    def each(self, check, schedulers=2, **how):
        """Of schedulers one after the other, of which the second finds what the first has left."""
        async def main():
            async with Scheduler(**{"protocol": "wherry", "host": "127.0.0.1", "port": 0,
                                    "dashboard_address": "127.0.0.1:0", **how}) as scheduler:
                def status(path):
                    with urllib.request.urlopen(f"http://127.0.0.1:{scheduler.http_server.port}/{path}") as answer:
                        return answer.status
                await check(scheduler, lambda path: asyncio.get_running_loop().run_in_executor(None, status, path))
        for _ in range(schedulers):
            asyncio.run(asyncio.wait_for(main(), SOON))

    def test_below_a_prefix(self):
        async def check(scheduler, status):
            self.assertEqual(await status("dask/wherry"), 200)
        self.each(check, http_prefix="dask")

    def test_it_is_there_once(self):
        async def check(scheduler, status):
            _measure.attach(scheduler)
            _dashboard.attach(scheduler)
            applications = scheduler.http_application.applications
            self.assertEqual(sum("/wherry" in each.app_paths for each in applications), 1)
            self.assertEqual(_dashboard._variables(dashboard, scheduler)["pages"].count("wherry"), 1)
            self.assertEqual(await status("wherry"), 200)
        self.each(check)

    def test_nothing_has_to_be_preloaded(self):
        async def check(scheduler, status):
            self.assertEqual(list(scheduler.preloads), [])
            self.assertEqual(await status("wherry"), 200)
        with dask.config.set({"distributed.scheduler.preload": []}):
            self.each(check, schedulers=1)

    def test_a_scheduler_without_a_dashboard(self):
        async def check(scheduler, status):
            self.assertEqual(scheduler.http_application.applications, [])
        self.each(check, dashboard=False)


@unittest.skipIf(MISSING, MISSING)
class Without(unittest.TestCase):
    def test_no_bokeh(self):
        """Where there is nothing to make the page with, all else is as it was, and nothing is said."""
        if not NO_PAGE:
            dashboard.applications.pop(_dashboard.PATH, None)
        with mock.patch.dict("sys.modules", {"wherry.dask._page": None}), \
                self.assertNoLogs("wherry", "INFO"), cluster(processes=False) as (made, client):
            one, other = metrics(client)
            fetch(client, one, other)
            until(lambda: metrics(client)[other]["pairs"])
            with self.assertRaises(urllib.error.HTTPError) as refused:
                get(made, "wherry")
            self.assertEqual(refused.exception.code, 404)


if __name__ == "__main__":
    unittest.main()
