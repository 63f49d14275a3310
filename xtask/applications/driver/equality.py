"""Whether an answer through Larder is the one that the application gives directly."""
import re

from identity import tokens

FIELDS = ("content-type", "location", "cache-control", "content-language", "content-disposition",
          "access-control-allow-origin", "www-authenticate", "last-modified")
MASK = "(masked)"
# The time of an error page.
TIME = re.compile(r"\w{3} \w{3} \d\d \d\d:\d\d:\d\d UTC \d{4}")


def mask(text, values):
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, MASK)
    return TIME.sub("(time)", text)


def names(values):
    return {name.strip().lower() for value in values for name in value.split(",") if name.strip()}


def cookie_names(answer):
    return {value.partition("=")[0] for value in answer.all("set-cookie")}


def private_values(client, answer):
    """Returns the random values that differ between two instances of an application."""
    return {value for value in client.jar.values() if len(value) >= 8} | tokens(answer)


def shown(text):
    text = re.sub(r"\s+", " ", text)
    return text if len(text) <= 160 else text[:157] + "..."


def bodies(through, direct, clients):
    """Returns the difference of the bodies in words, or None, and whether something was masked."""
    ours = mask(through.text, private_values(clients[0], through))
    theirs = mask(direct.text, private_values(clients[1], direct))
    masked = MASK in ours or MASK in theirs
    if ours == theirs:
        return None, masked
    at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b),
              min(len(ours), len(theirs)))
    begin = max(0, at - 40)
    return (f"body '{shown(ours[begin:begin + 160])}' "
            f"instead of '{shown(theirs[begin:begin + 160])}'"), masked


def tags(through, direct, masked):
    """Compares ETags weakly; where the body has random values, only that there are such."""
    ours, theirs = (answer.get("etag") for answer in (through, direct))
    if ours and theirs and (masked or ours.removeprefix("W/") == theirs.removeprefix("W/")):
        return []
    return [] if ours == theirs else [f"ETag {ours} instead of {theirs}"]


def vary_differences(through, direct):
    """Names in Vary may be more than those of the application, but not fewer.

    Accept-Encoding is left out by some frameworks where they do not compress, which makes such an
    answer right for all clients.
    """
    missing = names(direct.all("vary")) - names(through.all("vary"))
    if through.coding == "identity":
        missing.discard("accept-encoding")
    return [f"Vary without {sorted(missing)}"] if missing else []


def differences(through, direct, clients, with_body=True):
    """Returns in which respects the two answers differ, as sentences."""
    if through.get("x-damaged"):
        return [f"a damaged {through.coding} body"]
    if through.status != direct.status:
        return [f"status {through.status} instead of {direct.status}"]
    found = []
    body, masked = bodies(through, direct, clients) if with_body else (None, True)
    if body:
        found.append(body)
    if through.status != 304:
        found += tags(through, direct, masked)
        for name in FIELDS:
            ours, theirs = through.get(name), direct.get(name)
            if ours != theirs:
                found.append(f"{name}: {ours} instead of {theirs}")
    return found + vary_differences(through, direct)


def cookie_differences(through, direct):
    """As `differences` for the cookies that are set; stored answers may set fewer."""
    ours, theirs = cookie_names(through), cookie_names(direct)
    if ours - theirs or (theirs - ours and not through.shared):
        return [f"cookies {sorted(ours)} instead of {sorted(theirs)}"]
    return []


def range_differences(through, direct, clients, first, last):
    """As `differences` for a range; either side may send the whole, or refuse in its own words."""
    if through.status == direct.status == 416:
        return []
    if {through.status, direct.status} == {200, 206}:
        part, whole = (through, direct) if through.status == 206 else (direct, through)
        if part.body != whole.body[first:last + 1]:
            return [f"bytes {first}-{last} are not those of the whole"]
        return []
    found = differences(through, direct, clients)
    # Filters that hash what is sent give each range a tag of its own.
    return [what for what in found if not what.startswith("ETag")]
