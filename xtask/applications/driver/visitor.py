"""A visitor: the same steps through Larder and directly, each answer judged at once."""
import http.client
import json
import re
import urllib.parse

from client import HOST, Client
from equality import cookie_differences, differences, range_differences
from identity import form_token

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
JSON = {"Content-Type": "application/json"}
STATIC = ("/static/app.css", "/static/app.js", "/static/logo.svg")
# Pages that are the same for all and have a stated lifetime.
SHARED = ("/news", "/article/2", "/api/public")
OWN = ("/", "/account", "/cart", "/widget", "/search?q=pears", "/files/report.txt")
LANGUAGES = ("en", "de", "fr", "de-CH,de;q=0.9,en;q=0.5")
TRICKS = ("/account/x.css", "/account/static/app.css", "/account%2Fx.css", "/account;x.css",
          "/account/..%2fstatic/app.css", "//account", "/static/..%2faccount", "/account?x.css",
          "/static/%2e%2e/account", "/files/report.txt/x.css", "/cart/x.js", "/account%3fx.css",
          "/account/%2e%2e/static/logo.svg", "/ACCOUNT", "/account.css")


class World:
    """What the visitors of one application in one configuration share."""

    def __init__(self, report, marks, ports, fields, extra_static):
        self.report, self.marks, self.ports, self.fields = report, marks, ports, fields
        self.static, self.own = STATIC + extra_static, OWN
        self.tags = {}
        self.trusted = bool(fields)

    def discover(self):
        """Adds what Next makes for its pages: hashed files, and the data of private pages."""
        client = Client(self.ports[1], self.fields)
        page = client.ask("GET", "/").text
        client.close()
        self.static += tuple(re.findall(r'="(/_next/static/[^"]+)"', page)[:4])
        build = re.search(r'"buildId":"([^"]+)"', page)
        if build:
            self.own += tuple(f"/_next/data/{build[1]}/{name}.json"
                              for name in ("index", "account", "cart"))


class Visitor:
    """One visitor, who may sign in under its name, with a jar for each side."""

    def __init__(self, world, name, random):
        self.world, self.name, self.random = world, name, random
        self.clients = [Client(port, world.fields) for port in world.ports]
        self.signed_in, self.keys, self.items = False, [{}, {}], 0

    def close(self):
        for client in self.clients:
            client.close()

    # Requests

    def fault(self, kind, method, path, fields, *found):
        who = f"{self.name} ({'signed in' if self.signed_in else 'anonymous'})"
        self.world.report.fault(kind, method, path, fields, who, found)

    def one(self, side, method, path, fields=None, body=None, client=None):
        """Asks one side (0: through Larder, 1: directly); returns the answer, None without one."""
        report, fields = self.world.report, fields or {}
        try:
            answer = (client or self.clients[side]).ask(method, path, fields, body)
        except (OSError, http.client.HTTPException) as error:
            side_name = "Larder" if side == 0 else "the application"
            self.fault("failure", method, path, fields,
                       f"no answer from {side_name}: {type(error).__name__}")
            return None
        if side == 0:
            kind = ("files" if path in self.world.static else
                    "pages" if path in SHARED + ("/board",) else "others")
            for what in ("requests", kind):
                report.count(what)
                if answer.hit:
                    report.count(what + " hit")
        foreign = self.world.marks[side].foreign(self.name, answer)
        if foreign and side == 0:
            self.fault("leak", method, path, fields, *foreign,
                       f"status {answer.status}, {answer.get('cache-status')}")
        elif foreign:
            self.fault("failure", method, path, fields, "the application itself shows, without "
                       "Larder, " + ", ".join(foreign))
        return answer

    def both(self, method, path, fields=None, bodies=(None, None), clients=None,
             side_fields=({}, {}), compare=differences, **options):
        """Asks both sides the same and compares; returns both answers, or None."""
        fields, clients = fields or {}, clients or self.clients
        known = [set(client.jar) for client in clients]
        answers = [self.one(side, method, path, {**fields, **side_fields[side]}, bodies[side],
                            clients[side]) for side in (0, 1)]
        if None in answers:
            return None
        if compare:
            found = compare(*answers, clients, **options)
            if known[0] == known[1]:
                found += cookie_differences(*answers)
            self.judge(found, answers[0], method, path, {**fields, **side_fields[0]})
        if method == "GET" and answers[0].status == answers[1].status == 200:
            self._note_tags(path, fields, answers)
        return answers

    def judge(self, found, answer, method, path, fields):
        """Records the differences of an answer, if any."""
        if found:
            self.fault("difference", method, path, fields, *found, str(answer.get("cache-status")))

    def _note_tags(self, path, fields, answers):
        pair = tuple(answer.get("etag") for answer in answers)
        if all(pair):
            known = (path, fields.get("Accept-Language"), self.signed_in)
            self.clients[0].tags[known] = pair
            self.world.tags.setdefault(path, {})[self.name] = pair

    def get(self, path, fields=None, **options):
        """Asks as a browser does: for gzip, and at times with the tag of the last copy."""
        fields = {"Accept-Encoding": self.random.choice(("gzip", "gzip, deflate", "identity")),
                  **(fields or {})}
        own = self.clients[0].tags.get((path, fields.get("Accept-Language"), self.signed_in))
        sides = ({}, {})
        if own and self.random.random() < 0.3:
            sides = tuple({"If-None-Match": tag} for tag in own)
        return self.both("GET", path, fields, side_fields=sides, **options)

    def submit(self, page, action, fields):
        """Opens the form's page, sends it with each side's own token, follows the redirect."""
        opened = self.get(page)
        if opened is None:
            return None
        bodies = []
        for side, answer in enumerate(opened):
            if answer.status == 304:
                answer = self.one(side, "GET", page)
            token = answer and form_token(answer)
            sent = {**fields, token[0]: token[1]} if token else fields
            bodies.append(urllib.parse.urlencode(sent).encode())
        scheme = self.world.fields.get("X-Forwarded-Proto", "http")
        done = self.both("POST", action, {**FORM, "Origin": f"{scheme}://{HOST}"}, bodies)
        if done and done[1].status in (302, 303):
            target = urllib.parse.urlsplit(done[1].get("location"))
            if target.path != "/board":
                self.get(target.path)
        return done

    # Steps

    def sign_in(self, target=""):
        done = self.submit("/login", "/login", {"name": self.name, "next": target,
                                                "password": "pw-" + self.name})
        self.signed_in = bool(done) and done[1].status in (302, 303)
        if not self.signed_in:
            self.fault("failure", "POST", "/login", {}, "cannot sign in")

    def sign_out(self):
        self.submit("/account", "/logout", {})
        self.signed_in = False
        self.get("/account")

    def take_keys(self):
        body = json.dumps({"name": self.name, "password": "pw-" + self.name}).encode()
        done = self.both("POST", "/api/token", JSON, (body, body), with_body=False)
        for side, answer in enumerate(done or ()):
            if answer.status == 200:
                self.keys[side] = json.loads(answer.text)
                for value in self.keys[side].values():
                    self.world.marks[side].learn(self.name, value, everywhere=True)

    def api(self, method, path, field="Authorization", sent=None, **options):
        kind = "key" if field == "X-API-Key" else "token"
        sides = tuple({field: ("Bearer " if kind == "token" else "") + keys.get(kind, "none")}
                      for keys in self.keys)
        body = None if sent is None else json.dumps(sent).encode()
        return self.both(method, path, JSON if sent else {}, (body, body), side_fields=sides,
                         **options)

    def notes(self):
        self.items += 1
        text = f"item-{self.items}-of-{self.name}"
        made = self.api("POST", "/api/notes", sent={"text": text})
        if not made or made[1].status != 201:
            return
        path = made[1].get("location")
        self.api("GET", "/api/notes")
        self.api("GET", path)
        self.api("PUT", path, sent={"text": text + "-changed"})
        self.api("GET", path)
        if self.random.random() < 0.5:
            self.api("DELETE", path)
            self.api("GET", path)
        self.api("GET", "/api/notes")

    def add_to_cart(self):
        self.items += 1
        self.submit("/cart", "/cart", {"item": f"item-{self.items}-of-{self.name}"})

    def write_on_board(self):
        """What a visitor has written is on the board when it looks next, lifetime or not."""
        text = f"post-{self.random.getrandbits(40):010x}"
        self.get("/board", compare=None)
        if not self.submit("/board/new", "/board", {"text": text}):
            return
        fields = {"Accept-Encoding": self.random.choice(("gzip", "identity"))}
        seen = self.both("GET", "/board", fields, compare=None)
        if seen and text in seen[1].text and text not in seen[0].text:
            self.fault("stale", "GET", "/board", fields, "the board without what the visitor "
                       f"just wrote there ({seen[0].get('cache-status')})")

    def article(self):
        self.get(f"/article/{self.random.randint(1, 3)}",
                 {"Accept-Language": self.random.choice(LANGUAGES)})

    def cross_origin(self):
        origin = self.random.choice(("https://a.example", "https://b.example", "https://c.example"))
        self.get("/api/public", {"Origin": origin})
        self.both("OPTIONS", "/api/public",
                  {"Origin": origin, "Access-Control-Request-Method": "GET"})

    def static(self):
        self.get(self.random.choice(self.world.static))

    def files(self):
        path = self.random.choice(("/files/report.txt", *self.world.static))
        first = self.random.randint(0, 200)
        fields = {"Range": f"bytes={first}-{first + 99}", "Accept-Encoding": "identity"}
        self.both("GET", path, fields, compare=range_differences, first=first, last=first + 99)

    # Hostile clients

    def any_own(self):
        return self.random.choice(self.world.own + ("/slow", "/offers"))

    def max_stale(self):
        value = self.random.choice(("max-stale", "max-stale=1000000", "max-stale, max-age=1000000"))
        self.both("GET", self.any_own(), {"Cache-Control": value})
        self.api("GET", "/api/me", compare=None)
        for method_path in (("GET", "/api/me"), ("GET", "/api/usage")):
            self.both(*method_path, {"Cache-Control": value})

    def only_if_cached(self):
        path = self.random.choice(self.world.own + ("/api/me", "/api/usage", "/api/notes"))
        value = self.random.choice(("only-if-cached", "only-if-cached, max-stale"))
        answer = self.one(0, "GET", path, {"Cache-Control": value})
        if answer and answer.status not in (200, 301, 302, 304, 404, 504):
            self.fault("difference", "GET", path, {"Cache-Control": value},
                       f"status {answer.status}")

    def others_tag(self):
        known = self.world.tags.get(path := self.any_own(), {})
        others = [pair for name, pair in list(known.items()) if name != self.name]
        if others:
            tags = self.random.choice(others)
            self.both("GET", path, side_fields=tuple({"If-None-Match": tag} for tag in tags))

    def head(self):
        self.both("HEAD", self.any_own(), with_body=False)

    def reload(self):
        self.both("GET", self.any_own(), {"Cache-Control": "no-cache", "Pragma": "no-cache"})

    def forged_host(self):
        """Claims another host, which no answer may have unless the client is trusted."""
        if self.world.trusted:
            return
        path = self.random.choice(("/go", "/news", "/login", "/account", "/article/2"))
        for field in ("X-Forwarded-Host", "X-Host", "Forwarded"):
            value = "host=evil.example" if field == "Forwarded" else "evil.example"
            # Without cookies, for it changes no session that the other side does not have.
            forger = self.clients[0].fresh()
            self.one(0, "GET", path, {field: value}, None, forger)
            forger.close()
        self.get(path)

    def trick(self):
        """Web cache deception: opens a private page under a file's name, then as a stranger."""
        path = self.random.choice(TRICKS)
        self.get(path)
        strangers = [client.fresh() for client in self.clients]
        stranger = Visitor(self.world, f"user-{self.random.getrandbits(24):06x}", self.random)
        stranger.both("GET", path, clients=strangers)
        for client in strangers:
            client.close()

    def newcomer(self):
        """A visitor without cookies whose first request is for a file, then for pages."""
        name = f"user-{self.random.getrandbits(24):06x}"
        visitor = Visitor(self.world, name, self.random)
        for path in (self.random.choice(self.world.static), self.random.choice(SHARED), "/offers",
                     "/cart"):
            visitor.get(path)
        visitor.add_to_cart()
        visitor.get("/cart")
        visitor.close()


PLAIN_STEPS = (
    (4, lambda v: v.get(v.random.choice(v.world.own))),
    (4, lambda v: v.get("/")), (4, lambda v: v.get("/account")), (4, lambda v: v.get("/cart")),
    (3, Visitor.add_to_cart), (2, lambda v: v.get(f"/search?q=pears+of+{v.name}")),
    (2, lambda v: v.get("/search?q=pears")), (2, lambda v: v.get("/widget")),
    (2, lambda v: v.get("/files/report.txt")), (2, lambda v: v.get("/news")),
    (4, Visitor.article), (3, lambda v: v.get("/offers")), (2, lambda v: v.get("/go")),
    (2, Visitor.write_on_board), (6, Visitor.static), (2, Visitor.files),
    (2, lambda v: v.api("GET", "/api/me")),
    (2, lambda v: v.api("GET", "/api/usage", "X-API-Key")),
    (2, Visitor.notes), (3, Visitor.cross_origin),
)
HOSTILE_STEPS = ((3, Visitor.max_stale), (2, Visitor.only_if_cached), (2, Visitor.others_tag),
                 (2, Visitor.head), (2, Visitor.reload), (1, Visitor.forged_host),
                 (3, Visitor.trick), (2, Visitor.newcomer))


def random_step(visitor):
    """Takes one step by chance; signs in or out at times where the visitor is one that does."""
    if visitor.keys[0] and visitor.random.random() < 0.03:
        if visitor.signed_in:
            visitor.sign_out()
        else:
            visitor.sign_in(visitor.random.choice(("", "/cart", "/files/report.txt")))
        return
    weights, steps = zip(*(PLAIN_STEPS + HOSTILE_STEPS))
    visitor.random.choices(steps, weights)[0](visitor)
