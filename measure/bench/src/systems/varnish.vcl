# Varnish with its own rules, which follow the headers. Storage is one file, mapped into memory:
# with less memory than objects that is all there is in it for a cache on a disk.
vcl 4.1;
backend default {
    .host = "<origin_host>";
    .port = "<origin_port>";
    .max_connections = 2000;
}
sub vcl_backend_response {
    # Nothing is kept past its freshness: answers are to be compared, not guessed.
    set beresp.grace = 0s;
    set beresp.keep = 10m;
}
