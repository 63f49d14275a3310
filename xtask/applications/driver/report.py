"""Faults, gathered by kind and request, and what was counted."""
import collections
import re
import threading

# Fields that a fault does not depend on, as a rule.
USUAL_FIELDS = {"Accept-Encoding", "Accept-Language", "Authorization", "X-API-Key", "Content-Type",
                "If-None-Match", "Origin"}
RANDOM = r"(user|secret|token|key|item|post)-[-0-9a-zA-Z]+|\d+"
KINDS = ("leak", "difference", "stale", "unshared", "waited", "failure")


class Report:
    """The findings about one application. All methods may be called by any thread."""

    def __init__(self, name):
        self.name, self.lock = name, threading.Lock()
        self.counts = collections.Counter()
        self.groups = {}
        self.configuration = ""

    def count(self, what, number=1):
        with self.lock:
            self.counts[what] += number

    def fault(self, kind, method, path, fields, who, found):
        """Records what is wrong with one answer, with the request that shows it.

        `found` has a sentence for each thing. Answers with the same kinds of things are counted.
        """
        names = tuple(sorted(set(fields) - USUAL_FIELDS))
        where = re.sub(r"user-\w+|\d+", "#", path)
        things = tuple(sorted({re.sub(RANDOM, "#", text).split("'")[0][:24] for text in found}))
        key = (kind, self.configuration, method, where, names, things)
        with self.lock:
            group = self.groups.setdefault(key, {
                "kind": kind, "configuration": self.configuration, "count": 0, "visitor": who,
                "request": f"{method} {path}", "fields": fields, "found": found})
            group["count"] += 1
            self.counts[kind] += 1

    def faults(self):
        order = {kind: at for at, kind in enumerate(KINDS)}
        return sorted(self.groups.values(),
                      key=lambda group: (order[group["kind"]], -group["count"]))

    def as_json(self):
        return {"application": self.name, "counts": dict(self.counts), "faults": self.faults()}


def print_details(report, most):
    for group in report.faults()[:most]:
        fields = "".join(f" [{n}: {v[:30]}]" for n, v in group["fields"].items())
        print(f"{report.name}, {group['configuration']}: {group['kind']} x{group['count']}: "
              f"{group['request']}{fields} by {group['visitor']}: {'; '.join(group['found'])}")
    if len(report.faults()) > most:
        print(f"{report.name}: {len(report.faults()) - most} further kinds of faults: --json FILE")


def print_table(reports):
    """Prints a line for each application.

    `files` and `pages` are the hits on static files, and on pages for all that have a lifetime.
    """
    print(f"\n{'application':<12}" + "".join(
        f"{name:>11}" for name in ("requests", "hits", "files", "pages", *KINDS)))
    for report in reports:
        counts = report.counts
        hits = (f"{100 * counts[what + ' hit'] // max(1, counts[what])} %"
                for what in ("requests", "files", "pages"))
        numbers = (counts["requests"], *hits, *(counts[kind] for kind in KINDS))
        print(f"{report.name:<12}" + "".join(f"{number:>11}" for number in numbers))
