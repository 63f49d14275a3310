//! The rules of HTTP caching (RFC 9110, RFC 9111) as pure functions: `now` is an argument.
