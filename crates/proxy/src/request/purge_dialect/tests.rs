//! Tests how purge requests of other caches' plug-ins are read.

use http::{HeaderName, HeaderValue};

use super::*;

fn purging() -> Purging {
    Purging { tags: fields(), ..Purging::default() }
}

fn fields() -> TagFields {
    let names =
        |names: &[&'static str]| names.iter().map(|name| HeaderName::from_static(name)).collect();
    TagFields {
        spaced: names(&["surrogate-key", "xkey", "cache-tags"]),
        listed: names(&["cache-tag", "x-magento-tags", "x-cache-tags"]),
    }
}

/// Reads a request with this method, path and field lines.
fn asked(method: &str, path: &str, lines: &[&str]) -> Result<Purge, String> {
    let mut headers = HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(": ").expect("name and value");
        let name: HeaderName = name.parse().expect("a name");
        headers.append(name, HeaderValue::from_str(value).expect("a value"));
    }
    let method = Method::from_bytes(method.as_bytes()).expect("a method");
    let url = Url::new("http", "a.example", path).expect("a path");
    let secret = HeaderName::from_static("x-purge-secret");
    read(&method, &url, (&headers, Some(&secret)), &purging())
}

/// Returns the scope in short form.
fn scope(method: &str, path: &str, lines: &[&str]) -> String {
    match asked(method, path, lines).map(|purge| (purge.scope, purge.soft)) {
        Ok((scope, soft)) => {
            let text = match scope {
                Scope::Url(url) => format!("url {url}"),
                Scope::Prefix(url) => format!("prefix {url}"),
                Scope::Host(host) => format!("host {host}"),
                Scope::Tags(tags) => format!("tags {}", tags.join(" ")),
                Scope::Ban(ban) => format!("ban {}", String::from_utf8_lossy(&ban.text())),
                Scope::Everything => "everything".to_owned(),
            };
            if soft { format!("{text}, soft") } else { text }
        }
        Err(why) => format!("refused: {why}"),
    }
}

#[test]
fn exact_purges_are_understood() {
    let a = "a.example";
    for (method, path, lines, expected) in [
        ("PURGE", "/x?q", &[][..], format!("url http://{a}/x?q")),
        ("PURGE", "/x", &["X-Purge-Method: default"], format!("url http://{a}/x")),
        ("PURGE", "/img*", &[], format!("prefix http://{a}/img")),
        ("PURGE", "/a**", &[], format!("prefix http://{a}/a*")),
        ("PURGE", "/.*", &["X-Purge-Method: regex"], format!("prefix http://{a}/")),
        ("PURGE", "/b\\.c/.*", &["X-VC-Purge-Method: regex"], format!("prefix http://{a}/b.c/")),
        ("PURGE", "/wiki/Foo_(bar)", &[], format!("url http://{a}/wiki/Foo_(bar)")),
        ("PURGE", "/", &["Surrogate-Key: a b", "xkey: b c"], "tags a b c".into()),
        ("PURGE", "/", &["Surrogate-Key: a", "Fastly-Soft-Purge: 1"], "tags a, soft".into()),
        ("PURGE", "/", &["Soft-Purge: 0"], format!("url http://{a}/")),
        ("PURGE", "/", &["Cache-Tag: dark red, b"], "tags dark red b".into()),
        ("PURGE", "/", &["xkey: /books?page=1"], "tags /books?page=1".into()),
        ("PURGE", "/", &["xkey-purge: a b"], "tags a b".into()),
        ("PURGEKEYS", "/", &["xkey-softpurge: a"], "tags a, soft".into()),
        ("PURGETAGS", "/", &["X-Cache-Tags: a,b"], "tags a b".into()),
        ("BAN", "/", &["Cache-Tags: node:1 node:2"], "tags node:1 node:2".into()),
        ("BAN", "/", &["Cache-Tags: a|b"], "tags a|b a b".into()),
        ("BAN", "/", &["Cache-Tags: (^|\\s)node:1(\\s|$)"], "tags node:1".into()),
        (
            "BAN",
            "/",
            &["X-Cache-Tags: (^|,)(a|b)(,|$)", "X-Host: .*", "X-Url: .*", "X-Content-Type: .*"],
            "tags a b".into(),
        ),
        (
            "PURGE",
            "/",
            &["X-Magento-Tags-Pattern: ((^|,)cat_p_1(,|$))|((^|,)cms_b(,|$))"],
            "tags cat_p_1 cms_b".into(),
        ),
        ("PURGE", "/", &["X-Magento-Tags-Pattern: .*"], "everything".into()),
        (
            "BAN",
            "/",
            &["X-Url: ^/news/", "X-Host: ^b\\.example$"],
            "prefix http://b.example/news/".into(),
        ),
        ("BAN", "/", &["X-Ban-Url: /news/.*"], format!("prefix http://{a}/news/")),
        ("BAN", "/", &["X-Url: .*", "X-Host: .*"], "everything".into()),
        ("PURGE", "/", &["X-Purge-Regex: ^/a\\.html$"], format!("url http://{a}/a.html")),
        ("BAN", "/news/.*", &[], format!("prefix http://{a}/news/")),
        ("URIBAN", "/x", &[], format!("url http://{a}/x")),
        ("FULLBAN", "/", &[], "everything".into()),
        ("XCGFULLBAN", "/", &[], "everything".into()),
        ("PURGE", "/x", &["X-VC-Purge-Host: b.example"], "url http://b.example/x".into()),
        ("PURGEALL", "/", &[], "everything".into()),
        // Fields that select nothing.
        (
            "PURGE",
            "/x",
            &[
                "Host: a.example",
                "User-Agent: x",
                "Cache-Control: no-cache",
                "X-Request-Id: 1",
                "X-Forwarded-Host: a",
                "Accept: */*",
                "Traceparent: 00-1",
                "X-Api-Key: k",
                "X-Purge-Secret: s",
            ],
            format!("url http://{a}/x"),
        ),
    ] {
        assert_eq!(scope(method, path, lines), expected, "{method} {path} {lines:?}");
    }
}

#[test]
fn other_regular_expressions_are_bans() {
    let at = |regex: &str| format!(r#"ban {{"regex":"{regex}","hosts":["a.example"]}}"#);
    for (method, path, lines, expected) in [
        ("PURGE", "/b/.*\\.html", &["X-Purge-Method: regex"][..], at("/b/.*\\\\.html")),
        ("PURGE", "/a.b/.*", &["X-Purge-Method: regex"], at("/a.b/.*")),
        ("PURGE", "/a", &["X-Purge-Method: regex"], at("/a")),
        (
            "PURGE",
            "/a",
            &["X-Purge-Method: ban-regex", "X-Ban-Regex: ^/a($|/$|\\?.*|/\\?.*)"],
            at("^/a($|/$|\\\\?.*|/\\\\?.*)"),
        ),
        (
            "PURGE",
            "/x.y",
            &["X-VC-Purge-Method: regex", "X-VC-Purge-Host: b.example"],
            r#"ban {"regex":"/x.y","hosts":["b.example"]}"#.into(),
        ),
        ("BAN", "/.*projects.*", &[], at("/.*projects.*")),
        ("BAN", "/x", &["X-Url: /news"], at("/news")),
        ("BAN", "/", &["X-Url: /n/.*", "X-Host: .*"], r#"ban {"regex":"/n/.*"}"#.into()),
        (
            "BAN",
            "/",
            &["X-Url: .*", "X-Host: b.example"],
            r#"ban {"host-regex":"b.example"}"#.into(),
        ),
        (
            "BAN",
            "/",
            &["X-Url: .*", "X-Host: .*", "X-Content-Type: image/.*", "X-Site: .*"],
            r#"ban {"fields":{"content-type":"image/.*"}}"#.into(),
        ),
        (
            "BAN",
            "/",
            &["Cache-Tags: node:[0-9]+", "Soft-Purge: 1"],
            r#"ban {"fields":{"cache-tags":"node:[0-9]+"}}, soft"#.into(),
        ),
        (
            "PURGE",
            "/",
            &["X-Magento-Tags-Pattern: cat_p_"],
            r#"ban {"fields":{"x-magento-tags":"cat_p_"}}"#.into(),
        ),
        ("PURGE", "/", &["X-Pool: ^a$"], r#"ban {"fields":{"x-pool":"^a$"}}"#.into()),
    ] {
        assert_eq!(scope(method, path, lines), expected, "{method} {path} {lines:?}");
    }
}

#[test]
fn other_purges_are_refused_with_the_reason() {
    for (method, path, lines, names) in [
        ("PURGE", "/b/.*\\.html", &[][..], "pattern"),
        ("PURGE", "/a(b/.*", &["X-Purge-Method: regex"], "unclosed group"),
        ("BAN", "/", &["X-Url: (a)\\1"], "backreferences"),
        ("BAN", "/", &["X-Url: ((a{1,999}){1,999}){1,999}"], "size"),
        ("PURGE", "/", &["X-VC-Purge-Host: a b"], "x-vc-purge-host"),
        ("PURGE", "/b/*.html", &[], "pattern"),
        ("PURGE", "/a", &["X-Purge-Method: wildcard"], "x-purge-method"),
        ("PURGE", "/", &["X-Purge-Method: regex", "xkey: a"], "more than one"),
        ("PURGE", "/", &["X-Purge-Method: regex", "X-Purge-Method: exact"], "twice"),
        ("PURGE", "/img/*", &["xkey: a"], "more than one"),
        ("PURGE", "/", &["Purge-Cache-Tags: a"], "purge.tag-fields"),
        ("PURGE", "/", &["X-Drupal-Cache-Tags: a"], "purge.tag-fields"),
        ("PURGE", "/", &["Edge-Cache-Tag: a"], "purge.tag-fields"),
        ("PURGE", "/", &["X-Tags: a"], "x-tags"),
        ("PURGE", "/", &["X-Magento-Tags-Pattern: (^|,)a(,|$)", "X-Pool: b"], "x-pool"),
        ("PURGE", "/", &["X_Purge_Method: regex"], "x_purge_method"),
        ("PURGE", "/", &["X-Magento-Tags-Pattern: (^|,)a(,|$)", "xkey: b"], "more than one"),
        ("PURGE", "/", &["X-Host: a"], "x-host"),
        ("PURGE", "/", &["X-Purge-Host: a"], "x-purge-host"),
        ("PURGE", "/", &["ApiPlatform-Ban-Regex: a"], "apiplatform-ban-regex"),
        ("PURGE", "/", &["Varnish-Ban-All: 1"], "varnish-ban-all"),
        ("PURGE", "/", &["Clear-Cache: true"], "clear-cache"),
        ("PURGE", "/", &["xkey: cat.*"], "cat.*"),
        ("PURGE", "/", &["xkey:  "], "a tag is empty"),
        ("BAN", "/", &[], "BAN of a plain URL"),
        ("BAN", "/", &["xkey: a", "X-Url: /x/.*"], "more than one"),
        ("URIBAN", "/x", &["xkey: a"], "more than one"),
        ("FULLBAN", "/", &["xkey: a"], "more than one"),
        ("PURGEKEYS", "/", &[], "without tags"),
        ("REFRESH", "/", &[], "REFRESH"),
        ("HOSTBAN", "/", &[], "HOSTBAN"),
        ("purge", "/", &[], "purge"),
    ] {
        let why = asked(method, path, lines).expect_err(&format!("{method} {path} {lines:?}"));
        assert!(why.contains(names), "{method} {path} {lines:?}: {why}");
    }
    let none = TagFields { spaced: Vec::new(), listed: Vec::new() };
    let mut headers = HeaderMap::new();
    headers.insert("x-magento-tags-pattern", HeaderValue::from_static("((^|,)a(,|$))"));
    let url = Url::parse("http://a.example/").expect("a URL");
    let method = Method::from_bytes(b"PURGE").expect("a method");
    let none = Purging { tags: none, ..Purging::default() };
    let read = read(&method, &url, (&headers, None), &none).expect("a ban");
    let text = r#"{"fields":{"x-magento-tags":"((^|,)a(,|$))"},"soft":false}"#;
    assert_eq!(serde_json::Value::Object(read.words()).to_string(), text, "no such tags");
    headers.insert("xkey-purge", HeaderValue::from_static("a"));
    let why = super::read(&method, &url, (&headers, None), &none).expect_err("no such tags");
    assert!(
        why.contains("answers have no tags of xkey") && why.contains("purge.tag-lists"),
        "{why}"
    );
}

#[test]
fn purge_methods_of_other_caches_are_known() {
    for (name, is) in [
        ("PURGE", true),
        ("BAN", true),
        ("URIBAN", true),
        ("purge", true),
        ("SOFTPURGE", true),
        ("REFRESH", true),
        ("GET", false),
        ("PROPFIND", false),
        ("REPORT", false),
    ] {
        let method = Method::from_bytes(name.as_bytes()).expect("a method");
        assert_eq!(is_purge(&PurgeDialect::default(), &method), is, "{name}");
    }
}
