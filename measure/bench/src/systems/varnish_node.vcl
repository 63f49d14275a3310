vcl 4.1;
# Varnish as a node of several that share the documents, by the shard director: every node finds the
# owner of a document by consistent hashing. It keeps and fetches its own documents; requests for
# others' it passes to their owners without storing the response.
import directors;
probe alive {
    .request = "HEAD /probe HTTP/1.1" "Host: probe" "Connection: close";
    .interval = 1s; .timeout = 1s; .window = 2; .threshold = 1; .initial = 2;
}
backend origin { .host = "<origin_host>"; .port = "<origin_port>"; }
<backends>
sub vcl_init {
    new nodes = directors.shard();
    <adds>
    nodes.reconfigure();
}
sub vcl_recv {
    if (req.url == "/probe") { return (synth(200)); }
    # A node that receives a request from another node serves it, even if it considers a different
    # node the owner.
    if (req.http.x-asked) {
        unset req.http.x-asked;
        set req.backend_hint = origin;
        return (hash);
    }
    # A node that does not respond to a probe or to a request is skipped: the next one on the ring
    # gets the request (alt), or is this one.
    set req.backend_hint = nodes.backend(by=KEY,
        key=nodes.key(req.http.host + req.url), alt=req.restarts, resolve=NOW);
    if (req.backend_hint == node<number>) {
        set req.backend_hint = origin;
        return (hash);
    }
    return (pass);
}
sub vcl_pass { set req.http.x-asked = "<number>"; }
sub vcl_hash {
    hash_data(req.url); hash_data(req.http.host);
    return (lookup);
}
sub vcl_backend_error {
    if (bereq.http.x-asked) { return (abandon); }
}
sub vcl_synth {
    if (resp.status == 503 && req.restarts < 2) {
        unset req.http.x-asked;
        return (restart);
    }
}
sub vcl_deliver {
    if (!resp.http.x-node) {
        set resp.http.x-node = "<number>";
        if (obj.hits > 0) { set resp.http.x-result = "HIT"; }
        else { set resp.http.x-result = "MISS"; }
    }
}
