"""What belongs to one visitor alone: names, secrets, session cookies, tokens.

Every name has the form user-xxxxxx, and everything that an application makes for a visitor contains
the name, the secret that follows from it, or a random value that was given to this visitor first.
"""
import hashlib
import re
import threading

NAME = re.compile(r"user-[0-9a-z]{6}")
SECRET = re.compile(r"secret-[0-9a-f]{12}")
TOKEN = re.compile(r'name="(_csrf|csrfmiddlewaretoken|csrf)"\s+value="([^"]+)"')
# The same in the data of a page, as Next sends it.
JSON_TOKEN = re.compile(r'"target":"[^"]*","token":"([^"]+)"')
EVIL_HOST = "evil.example"
SHORTEST_RANDOM_VALUE = 16


def secret(name):
    """Returns the secret that each application shows to the user of this name."""
    return "secret-" + hashlib.sha256(("shop" + name).encode()).hexdigest()[:12]


def form_token(answer):
    """Returns the name and value of the form's CSRF token, or None."""
    found = TOKEN.search(answer.text)
    return found.groups() if found else None


def tokens(answer):
    """Returns the values of all CSRF tokens in the answer."""
    form = form_token(answer)
    return {*JSON_TOKEN.findall(answer.text), *((form[1],) if form else ())}


class Marks:
    """Random values that servers handed out, and their first owners. One for each server."""

    def __init__(self):
        self.lock = threading.Lock()
        self.owners = {}
        self.live = {}

    def learn(self, owner, value, everywhere=False):
        """Records `value` as that of `owner`; returns another visitor that had it before, or None.

        A value with `everywhere` is looked for in all text that others get.
        """
        with self.lock:
            first = self.owners.setdefault(value, owner)
            if everywhere and first == owner:
                self.live[value] = owner
        return first if first != owner else None

    def foreign(self, visitor, answer):
        """Returns what in `answer` belongs to other visitors than `visitor`, as words."""
        text, found = answer.everything, []
        found += [f"the name {n}" for n in set(NAME.findall(text)) if n != visitor]
        own = secret(visitor)
        found += [f"the secret {s}" for s in set(SECRET.findall(text)) if s != own]
        if EVIL_HOST in text:
            found.append(f"{EVIL_HOST} of a client's X-Forwarded-Host")
        for value in answer.all("set-cookie"):
            name, _, content = value.partition(";")[0].partition("=")
            if len(content) >= SHORTEST_RANDOM_VALUE and "1970" not in value:
                owner = self.learn(visitor, content, everywhere=True)
                if owner:
                    found.append(f"the cookie {name} of {owner}")
        for token in tokens(answer):
            owner = self.learn(visitor, token)
            if owner:
                found.append(f"the CSRF token of {owner}")
        with self.lock:
            live = list(self.live.items())
        if not any(" cookie " in what or " token " in what for what in found):
            found += [f"a session or token of {owner}" for value, owner in live
                      if owner != visitor and value in text]
        return list(dict.fromkeys(found))
