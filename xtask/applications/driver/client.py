"""One visitor's connection to one server: cookies, requests sent unchanged, answers decoded."""
import gzip
import http.client
import zlib

HOST = "shop.example"
TIMEOUT_SECONDS = 30
BROWSER = {"Accept": "text/html,application/json;q=0.9,*/*;q=0.8", "Accept-Language": "en",
           "User-Agent": "Mozilla/5.0"}


class Answer:
    """A response whose body has no content coding any more."""

    def __init__(self, status, fields, body):
        self.status = status
        self.fields = [(name.lower(), value) for name, value in fields]
        self.raw_length = len(body)
        coding = (self.get("content-encoding") or "identity").lower()
        try:
            if body and coding == "gzip":
                body = gzip.decompress(body)
            elif body and coding == "deflate":
                body = zlib.decompress(body)
        except (OSError, EOFError, zlib.error):
            self.fields.append(("x-damaged", coding))
        self.coding = coding
        self.body = body
        self.text = body.decode("utf-8", "replace")

    def get(self, name):
        values = [value for n, value in self.fields if n == name]
        return ", ".join(values) if values else None

    def all(self, name):
        return [value for n, value in self.fields if n == name]

    @property
    def hit(self):
        return "; hit" in (self.get("cache-status") or "")

    @property
    def shared(self):
        """Whether it is a stored answer, or that of a fetch together with other visitors."""
        return self.hit or "; collapsed" in (self.get("cache-status") or "")

    @property
    def everything(self):
        """Everything that the visitor can read, for the search of what belongs to others."""
        return "\n".join(f"{n}: {v}" for n, v in self.fields) + "\n" + self.text


class Client:
    """A jar and a connection. `fields` are sent with every request (a TLS end's, for example)."""

    def __init__(self, port, fields=None):
        self.port, self.fields = port, dict(fields or {})
        self.jar, self.tags = {}, {}
        self.connection = None

    def fresh(self):
        """Returns a client that has no cookies yet, on a connection of its own."""
        return Client(self.port, self.fields)

    def close(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    def ask(self, method, path, fields=None, body=None):
        """Sends a request with the jar's cookies and takes the answer's cookies into the jar.

        A connection that the server closed between two requests is opened again, as browsers do.
        """
        sent = {**BROWSER, **self.fields, **(fields or {})}
        if self.jar:
            sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.jar.items())
        used = self.connection is not None
        try:
            answer = self._exchange(method, path, sent, body)
        except (http.client.RemoteDisconnected, ConnectionError):
            self.close()
            if not used:
                raise
            answer = self._exchange(method, path, sent, body)
        for value in answer.all("set-cookie"):
            self._keep(value)
        return answer

    def _exchange(self, method, path, fields, body):
        if self.connection is None:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.port,
                                                         timeout=TIMEOUT_SECONDS)
        connection = self.connection
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in {"Host": HOST, **fields}.items():
            connection.putheader(name, value)
        if body is not None or method in ("POST", "PUT"):
            connection.putheader("Content-Length", str(len(body or b"")))
        try:
            connection.endheaders(body)
            response = connection.getresponse()
            answer = Answer(response.status, response.getheaders(), response.read())
        except (OSError, http.client.HTTPException):
            self.close()
            raise
        if response.will_close:
            self.close()
        return answer

    def _keep(self, value):
        pair, _, attributes = value.partition(";")
        name, _, content = pair.strip().partition("=")
        attributes = attributes.lower()
        if not content.strip('"') or "max-age=0" in attributes or "1970" in attributes:
            self.jar.pop(name, None)
        else:
            self.jar[name] = content
