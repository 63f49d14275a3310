"""Drives applications through Larder and directly, with several visitors at once, and compares.

Usage: main.py PLAN, a file of JSON that `cargo xtask applications` writes: the applications with
the commands that start them, the binary, the number of visitors, seconds of each walk, the seed.
Exits with 1 when an answer was wrong, with 2 when nothing could be tried.
"""
import json
import random
import sys
import threading
import time

from equality import differences
from identity import Marks
from report import Report, print_details, print_table
from servers import CONFIGURATIONS, Application, Larder
from visitor import SHARED, STATIC, Visitor, World, random_step

# Asked by all visitors in the same moment.
MEETINGS = ("/", "/account", "/cart", "/slow", "/widget", "/search?q=pears", "/files/report.txt",
            "/offers", "/account/x.css", "/go", "/news", "/article/2", "/static/app.css", "/slow",
            "/account?together", "/slow?together")
API_MEETINGS = (("/api/me", "Authorization"), ("/api/notes", "Authorization"),
                ("/api/usage", "X-API-Key"))
DETAILS = 40
# Waiting longer than this many times the direct answer, and as many seconds more, is a fault.
WAIT_FACTOR, WAIT_SECONDS = 4, 1.0


def in_threads(visitors, work):
    """Runs `work` for all visitors at once and raises what one of them raised."""
    raised = []

    def run(visitor):
        try:
            work(visitor)
        except Exception as error:
            raised.append(error)
    threads = [threading.Thread(target=run, args=(visitor,)) for visitor in visitors]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


def first_steps(visitor):
    """Everything once in a fixed order, so that no kind of page is left to chance."""
    for path in ("/", "/cart", "/account"):
        visitor.get(path)
    if visitor.signs_in:
        visitor.sign_in()
        visitor.take_keys()
    visitor.add_to_cart()
    for path in visitor.world.own + SHARED + visitor.world.static:
        visitor.get(path)
    visitor.article()
    visitor.notes()
    visitor.write_on_board()


def walk(visitors, seconds):
    end = time.monotonic() + seconds

    def work(visitor):
        while time.monotonic() < end:
            random_step(visitor)
    in_threads(visitors, work)


def meet(visitors):
    """All ask for the same in the same moment, through Larder, then directly."""
    barrier, took = threading.Barrier(len(visitors)), {}

    def together(visitor, ask, side, path):
        barrier.wait(60)
        begin = time.monotonic()
        answer = ask(side)
        seconds = time.monotonic() - begin
        if path.startswith("/slow"):
            took.setdefault((path, side), []).append(seconds)
        return answer

    def work(visitor):
        for path in MEETINGS:
            fresh = visitor.random.random() < 0.25
            clients = [c.fresh() for c in visitor.clients] if fresh else visitor.clients
            answers = [together(visitor, lambda side: visitor.one(
                side, "GET", path, {}, None, clients[side]), side, path) for side in (0, 1)]
            if None not in answers:
                visitor.judge(differences(*answers, clients), answers[0], "GET", path, {})
        for path, field in API_MEETINGS:
            barrier.wait(60)
            visitor.api("GET", path, field)
    in_threads(visitors, work)
    for path in ("/slow", "/slow?together"):
        through, direct = max(took[path, 0]), max(took[path, 1])
        if through > WAIT_FACTOR * direct + WAIT_SECONDS:
            visitors[0].fault("waited", "GET", path, {}, f"{through:.1f} s when {len(visitors)} "
                              f"visitors ask at once, {direct:.1f} s directly")


def while_down(visitors):
    """The application is down: whatever is answered, it has nothing of others."""
    def work(visitor):
        others = ("/offers", "/account/x.css", "/slow", "/api/me", "/api/notes", "/api/usage",
                  "/board")
        for path in visitor.world.own + others + SHARED + STATIC:
            for fields in ({}, {"Cache-Control": "max-stale"}):
                visitor.one(0, "GET", path, fields)
                visitor.one(0, "GET", path, fields, None, visitor.clients[0].fresh())
    in_threads(visitors, work)


def come_back(visitors):
    """The application was started again and has forgotten everything."""
    def work(visitor):
        visitor.signed_in, visitor.keys = False, [{}, {}]
        visitor.get("/account")
        if visitor.signs_in:
            visitor.sign_in("/cart")
            visitor.take_keys()
        for path in visitor.world.own + SHARED:
            visitor.get(path)
        visitor.add_to_cart()
    in_threads(visitors, work)


def sharing(world, random_source):
    """What may be shared is shared: the second stranger hits where the application allows it."""
    for path in world.static + SHARED:
        name = f"user-{random_source.getrandbits(24):06x}"
        answers = []
        for _ in range(2):
            stranger = Visitor(world, name, random_source)
            answers.append(stranger.one(0, "GET", path, {"Accept-Encoding": "gzip"}))
            direct = stranger.one(1, "GET", path, {"Accept-Encoding": "gzip"})
            stranger.close()
        if None in answers or direct is None:
            continue
        allowed = direct.get("cache-control") or ""
        public = ("public" in allowed and "max-age" in allowed) or "s-maxage" in allowed
        if public and not direct.get("set-cookie") and not answers[1].hit:
            stranger.fault("unshared", "GET", path, {}, f"no hit for the second stranger although "
                           f"the application says {allowed}: {answers[1].get('cache-status')}")


def visitors_of(world, plan, label):
    made = []
    for number in range(plan["users"]):
        source = random.Random(f"{plan['seed']}/{label}/{number}")
        name = f"user-{source.getrandbits(24):06x}"
        visitor = Visitor(world, name, source)
        visitor.signs_in = number % 4 != 3
        made.append(visitor)
    return made


def try_configuration(plan, application, instances, configuration, report):
    report.configuration = configuration
    larder = Larder(plan["binary"], instances[0].port, configuration)
    try:
        larder.launch()
        larder.wait()
        fields = {} if configuration == "default" else {
            "X-Forwarded-Proto": "https", "X-Forwarded-For": "192.0.2.7"}
        world = World(report, [Marks(), Marks()], (larder.port, instances[1].port), fields,
                      tuple(application["static"]))
        world.discover()
        visitors = visitors_of(world, plan, f"{application['name']}/{configuration}")
        in_threads(visitors, first_steps)
        walk(visitors, plan["seconds"])
        meet(visitors)
        if configuration == "default":
            instances[0].stop()
            while_down(visitors)
            instances[1].stop()
            for instance in instances:
                instance.launch()
            for instance in instances:
                instance.wait()
            come_back(visitors)
        sharing(world, random.Random(f"{plan['seed']}/{application['name']}/sharing"))
        for visitor in visitors:
            visitor.close()
    finally:
        larder.remove()


def try_application(plan, application):
    report = Report(application["name"])
    instances = [Application(application), Application(application)]
    begin = time.monotonic()
    try:
        for instance in instances:
            instance.launch()
        for instance in instances:
            instance.wait()
        for configuration in CONFIGURATIONS:
            try_configuration(plan, application, instances, configuration, report)
    finally:
        for instance in instances:
            instance.remove()
    print(f"{application['name']}: {report.counts['requests']} requests through Larder, "
          f"{len(report.faults())} kinds of faults, {time.monotonic() - begin:.0f} s", flush=True)
    return report


def main():
    with open(sys.argv[1]) as file:
        plan = json.load(file)
    reports = [try_application(plan, application) for application in plan["applications"]]
    for report in reports:
        print_details(report, DETAILS)
    print_table(reports)
    for name, reason in plan["skipped"].items():
        print(f"{name:<12} SKIPPED: {reason}")
    if plan["json"]:
        with open(plan["json"], "w") as file:
            json.dump({"seed": plan["seed"], "skipped": plan["skipped"],
                       "applications": [report.as_json() for report in reports]}, file, indent=1)
    if any(report.groups for report in reports):
        sys.exit(1)
    if not reports:
        sys.exit(2)


if __name__ == "__main__":
    main()
