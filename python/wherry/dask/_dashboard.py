# SPDX-License-Identifier: BSD-3-Clause
"""The page "Wherry" joins a scheduler's dashboard, if it has one.

The dashboard is there before the scheduler listens, which is when this module hears of it: the page is an application
of its own beside it, on the same server, and in the same row of tabs.
"""
from typing import Any

from tornado.ioloop import IOLoop

TAB = "wherry"
PATH = "/" + TAB


def attach(scheduler: Any) -> None:
    """Raises ImportError and others where the page cannot be: bokeh is not there, or distributed has changed."""
    there = {path: each for each in scheduler.http_application.applications
             for path in getattr(each, "app_paths", ())}
    if "/status" not in there:  # no dashboard was asked for, or there is no bokeh
        return
    from distributed.dashboard import scheduler as dashboard
    from wherry.dask._page import page
    variables = _variables(dashboard, scheduler)
    if PATH not in there:
        made = dashboard.BokehApplication({PATH: page}, scheduler, prefix=there["/status"].prefix,
                                          template_variables=variables)
        scheduler.http_application.add_application(made)
        made.initialize(IOLoop.current())
        made.start()
    dashboard.applications.setdefault(PATH, page)  # of schedulers that this process makes later
    if TAB not in variables["pages"]:
        variables["pages"].append(TAB)


def _variables(dashboard: Any, scheduler: Any) -> Any:
    """Those of the dashboard's templates, the very ones: its other pages show the tab, too."""
    try:
        return dashboard.template_variables(scheduler)
    except TypeError:  # of earlier releases, where all schedulers have the same
        return dashboard.template_variables()
