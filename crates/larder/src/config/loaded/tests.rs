//! Tests of the configuration: messages word for word, precedence, reload.

use std::path::PathBuf;
use std::time::Duration;

use proxy::rules::access::Action;
use proxy::rules::classes::Classes;
use semantics::{Lifetime, Seconds};

use super::*;
use crate::config::layers::add_flag;
use crate::config::listen_addr::ListenAddr;
use crate::config::upstreams::UpstreamSettings;

fn problems(text: &str) -> String {
    match File::parse("larder.toml", text).and_then(|file| Loaded::build(&file, &Layer::new())) {
        Ok(_) => panic!("accepted: {text}"),
        Err(problems) => problems.to_string(),
    }
}

fn load(text: &str, flags: &[(&'static str, &str)]) -> Loaded {
    let mut layer = Layer::new();
    for (key, value) in flags {
        add_flag(&mut layer, key, &[(*value).to_owned()]).unwrap();
    }
    let file = File::parse("larder.toml", text).unwrap_or_else(|problems| panic!("{problems}"));
    Loaded::build(&file, &layer).unwrap_or_else(|problems| panic!("{problems}"))
}

#[test]
fn the_defaults() {
    let config = load("", &[]).config;
    assert_eq!(config.listen, ["127.0.0.1:3128".parse::<ListenAddr>().unwrap()]);
    assert_eq!(config.admin, Some("127.0.0.1:3129".parse().unwrap()));
    assert_eq!(config.cache, [PathBuf::from("larder.cache")]);
    assert_eq!((config.cache_size, config.memory), (None, 256 << 20));
    assert_eq!((config.access_log, config.workers), (None, None));
    assert_eq!((config.preset, config.layout), ("larder", None));
    assert_eq!(config.connect_ports, ["443".parse().unwrap()]);
}

#[test]
fn flags_override_the_file_and_the_file_the_defaults() {
    let text = r#"
        listen = ["127.0.0.1:1", "127.0.0.1:2"]
        memory = "64M"
        cache-size = 1073741824
        connect-ports = [443, "8000-8999"]
        [store]
        durability-bound = "250ms"
        one-timer-hours = 115
    "#;
    let config = load(text, &[("memory", "32M"), ("listen", "[::1]:3")]).config;
    assert_eq!(config.listen, ["[::1]:3".parse::<ListenAddr>().unwrap()]);
    assert_eq!((config.memory, config.cache_size), (32 << 20, Some(1 << 30)));
    assert_eq!(config.connect_ports, ["443", "8000-8999"].map(|ports| ports.parse().unwrap()));
    assert_eq!(config.store.durability_bound, Duration::from_millis(250));
    assert_eq!(config.store.one_timer_age, Some(Duration::from_secs(115 * 3600)));
    assert_eq!(config.format.mean_object, None);
}

#[test]
fn sites_and_rules() {
    let text = r#"
        [[site]]
        hosts = ["example.com", "www.Example.org"]
        upstream = "http://127.0.0.1:8080"
        host-header = "upstream"

        [[access]]
        action = "deny"
        hosts = [".example.net"]
        ports = [25]

        [[access]]
        action = "allow"
        clients = ["10.0.0.0/8"]
        methods = "GET"
    "#;
    let config = load(text, &[]).config;
    assert_eq!(config.sites.len(), 1);
    assert_eq!(config.sites[0].hosts, ["example.com", "www.example.org"]);
    assert!(!config.sites[0].pass_host);
    assert_eq!(config.access[0].ports, ["25".parse().unwrap()]);
    assert_eq!(config.access[1].action, Action::Allow);
    assert_eq!(config.access[1].methods, [http::Method::GET]);
    assert!(config.access[1].hosts.is_empty());
}

#[test]
fn a_site_says_what_it_does_not_inherit() {
    let text = r#"
        [upstream]
        tls-ca = "/general.pem"
        tls-name = "general"
        max-fails = 7
        check-path = "/up"
        check-rise = 9
        [[site]]
        hosts = ["a"]
        upstream = "http://a"
        [[site]]
        hosts = ["b"]
        upstream = "http://b"
        tls-ca = "system"
        tls-name = "none"
        tls-verify = false
        check-path = "none"
        next-upstream = ["http-503"]
    "#;
    let mut loaded = load(text, &[]);
    let words = |settings: &UpstreamSettings| format!("{settings:?}");
    let of =
        |config: &Config, at: usize| config.sites[at].upstream_settings(&config.upstream_settings);
    assert_eq!(words(&of(&loaded.config, 0)), words(&loaded.config.upstream_settings));
    let b = of(&loaded.config, 1);
    assert_eq!((&b.tls.authorities, &b.tls.name, b.tls.unverified), (&None, &None, true));
    assert_eq!((&b.check_path, b.check.rise), (&None, 9));
    assert!(!b.group.next.error && b.group.next.statuses == [503]);
    assert_eq!(b.group.max_fails, 7);
    // A reload changes what is inherited, and keeps what the site says itself.
    let new = text.replace("max-fails = 7", "max-fails = 8").replace("general", "other");
    let changes = loaded.reload(&load(&new, &[]));
    assert_eq!(changes.applied, ["upstream.tls-ca", "upstream.tls-name", "upstream.max-fails"]);
    assert!(changes.waiting.is_empty());
    let b = of(&loaded.config, 1);
    assert_eq!((b.group.max_fails, b.tls.name), (8, None));
}

#[test]
fn a_wrong_value_is_named_with_its_line() {
    let text = "listen = \"127.0.0.1:3128\"\n\n# size\ncache-size = \"10X\"\n";
    assert_eq!(
        problems(text),
        "larder.toml:4: cache-size: expected a size such as 10G, from 8M to 1024T, or \"auto\", \
         got \"10X\""
    );
}

#[test]
fn every_problem_is_reported_at_once() {
    let text = "\
memry = '64M'
memory = '1M'
workers = '2'
listen = ['127.0.0.1:3128', 'localhost']
preset = 'cfs'
[store]
durability-bound = 1
[clients]
idle = '60s'
";
    assert_eq!(
        problems(text),
        "\
larder.toml:1: memry: there is no such key; did you mean memory?
larder.toml:2: memory: expected a size such as 10G, from 16M to 64T, or \"auto\", got \"1M\"
larder.toml:3: workers: expected a whole number from 1 to 1024, or \"auto\", got \"2\" in quotes
larder.toml:4: listen: expected an IP address and a port such as 127.0.0.1:3128 or [::1]:3128, \
:3128 for all addresses, or a Unix socket such as unix:/run/larder.sock, got \"localhost\"
larder.toml:5: preset: expected larder, ucfs, tfs, unified, markatos-buddy, \
markatos-stream, markatos-stream-pack, markatos-lazy-reads \
or markatos-lazy-reads-loc, got \"cfs\"
larder.toml:7: store.durability-bound: expected a duration such as 30s, from 10ms to 365d, or \
\"auto\", got the number 1
larder.toml:8: clients: there is no such key; did you mean client?"
    );
}

#[test]
fn invalid_toml_is_reported_with_its_line() {
    let text = problems("memory = '64M'\nworkers = = 2\n");
    assert!(text.starts_with("larder.toml:2: this is not TOML: "), "{text}");
    let text = problems("memory = '64M'\nmemory = '64M'\n");
    assert!(text.starts_with("larder.toml:2: this is not TOML: duplicate key"), "{text}");
}

#[test]
fn a_key_in_the_wrong_place_is_recognised() {
    for (text, expected) in [
        ("durability-bound = '1s'", "durability-bound is a key of [store], not of the top level"),
        ("[store]\nmemory = '64M'", "memory is a key of the top level, before all tables, not of"),
        ("[caching]\nttl = '1s'", "ttl is a key of [[rule]], not of [caching]"),
        ("[[rule]]\nroot = '/x'", "root is a key of [[site]], not of [[rule]]"),
        ("[files]\ntls-ca = 'x'", "tls-ca is a key of [upstream] or [[site]], not of [files]"),
    ] {
        let told = problems(text);
        assert!(told.contains(expected), "{told}");
    }
    assert_eq!(problems("qqqqqq = 1"), "larder.toml:1: qqqqqq: there is no such key");
}

#[test]
fn wrong_types() {
    assert_eq!(
        problems("store = 1"),
        "larder.toml:1: store: expected a table [store], got the number 1"
    );
    assert_eq!(problems("site = 'a'"), "larder.toml:1: site: expected [[site]] tables, got \"a\"");
    assert_eq!(
        problems("memory = [1]"),
        "larder.toml:1: memory: expected a size such as 10G, from 16M to 64T, or \"auto\", \
         got a list"
    );
    assert_eq!(
        problems("connect-ports = [443, 70000, '9-1', 1.5]"),
        "larder.toml:1: connect-ports: expected a port or a range of ports such as \
         \"8000-8999\", got \"70000\"\n\
         larder.toml:1: connect-ports: expected a port or a range of ports such as \
         \"8000-8999\", got \"9-1\"\n\
         larder.toml:1: connect-ports: expected a port or a range of ports such as \
         \"8000-8999\", got the number 1.5"
    );
}

#[test]
fn repeated_tables_are_checked() {
    let text = "\
[[site]]
hosts = ['a']
upstream = 'http://b'
[[site]]
hosts = ['a']
upstream = 'http://c'
name = 'other'
";
    assert_eq!(
        problems(text),
        "larder.toml:4: site.hosts: \"a\" already belongs to the site of line 1"
    );
    assert_eq!(
        problems("[[site]]\nhost = 'a'\nupstream = 'http://b/path'\n"),
        "larder.toml:2: site.host: there is no such key; did you mean site.hosts?\n\
         larder.toml:3: site.upstream: expected an origin server such as http://127.0.0.1:8080, \
         https://example.com or unix:/run/app.sock, got \"http://b/path\": a path cannot be given here"
    );
    assert_eq!(
        problems("[[access]]\nclients = ['10.0.0.1/8']\naction = 'permit'"),
        "larder.toml:2: access.clients: expected a network, got \"10.0.0.1/8\", an address within \
         10.0.0.0/8\n\
         larder.toml:3: access.action: expected allow or deny, got \"permit\""
    );
}

#[test]
fn sites_that_claim_the_same_are_refused() {
    let at = |keys: &str| format!("[[site]]\n{keys}\nupstream = 'http://b'\n");
    let of = |keys: &str| at(&format!("hosts = ['a.test']\n{keys}"));
    for (text, expected) in [
        (
            of("paths = ['/x']") + &of("name = 'b'\npaths = ['/y', '/%78//']"),
            "/x/ of \"a.test\" already belongs to the site of line 1",
        ),
        (
            of("") + &of("name = 'b'\npaths = ['/']"),
            "\"a.test\" already belongs to the site of line 1",
        ),
        (of("paths = ['/x']") + &of("paths = ['/y']"), "give this one a name"),
        (of("paths = ['x']"), "is not a path prefix"),
        (of("paths = ['/x']\nstrip-prefix = true"), "expected root and paths beside it"),
        (at("name = 'a'"), "site.hosts: expected hosts, paths, or both"),
        (at("name = 'a'\npaths = ['/']"), "expected hosts beside /"),
        (of("") + &at("name = 'a'") + "[[rule]]\nupstream = ['b']", "or its name in upstream"),
        (
            of("") + &at("name = 'a'") + "[[rule]]\nsites = ['a']\nupstream = ['a']",
            "to the site \"a\"",
        ),
        (at("name = 'a'") + "[[rule]]\nupstream = ['a']", "expected reverse or [[site]] tables"),
        (at("paths = ['/x']\nkey-host = 'site'"), "expected hosts beside \"site\""),
        (
            at("paths = ['/x']") + &at("name = 'b'\npaths = ['/x/']"),
            "/x/ of every host already belongs to the site of line 1",
        ),
    ] {
        let said = problems(&text);
        assert!(said.contains(expected), "{text}: {said}");
    }
}

#[test]
fn no_cache_is_a_word() {
    for text in ["cache = 'none'", "cache = ['none']"] {
        assert!(load(text, &[]).config.cache.is_empty(), "{text}");
    }
    assert!(load("cache = 'a'", &[("cache", "none")]).config.cache.is_empty());
    let both = add_flag(&mut Layer::new(), "cache", &["none".to_owned(), "a".to_owned()]);
    assert_eq!(both.unwrap_err().text, "expected \"none\" alone, or values without it");
}

#[test]
fn an_origin_server_is_another_program_and_has_a_name() {
    for own in ["127.0.0.1:3129", "localhost:1"] {
        assert_eq!(
            problems(&format!("listen = '0.0.0.0:1'\nreverse = 'http://{own}'")),
            format!(
                "larder.toml:2: reverse: http://{own} is an address of Larder itself, which \
                 refuses such requests"
            )
        );
    }
    assert_eq!(
        problems("[[rule]]\nset-host = 'a b'"),
        "larder.toml:1: rule.set-host: expected host or host:port, got \"a b\""
    );
}

#[test]
fn contradictions() {
    assert_eq!(
        problems("listen = ['127.0.0.1:1', '127.0.0.1:1']"),
        "larder.toml:1: listen: 127.0.0.1:1 is given twice"
    );
    assert_eq!(
        problems("\nlisten = '127.0.0.1:3129'"),
        "larder.toml:2: listen: 127.0.0.1:3129 cannot be both: a proxy and the admin interface"
    );
    assert_eq!(problems("cache = []"), "larder.toml:1: cache: expected at least one");
    let mixed = "larder.toml:1: cache: expected \"none\" alone, or values without it";
    assert_eq!(problems("cache = ['a', 'none']"), mixed);
    assert_eq!(
        problems("cache = 'none'\n[fleet]\nlisten = '127.0.0.1:1'\ncapacity = '1G'"),
        "larder.toml:4: fleet.capacity: expected 0: without a cache a node owns nothing"
    );
    let collector = "otlp-endpoint = 'http://127.0.0.1:4318/v1/traces'";
    let expected = match cfg!(feature = "otlp") {
        true => "without traces there are no spans: set tracing to \"continue\" or \"start\"",
        false => "this program was built without OTLP: build it with --features otlp",
    };
    assert_eq!(problems(collector), format!("larder.toml:1: otlp-endpoint: {expected}"));
    assert_eq!(
        problems("admin-token = 'a'\nadmin-token-file = 'b'"),
        "larder.toml:1: admin-token: expected one of admin-token and admin-token-file, got both"
    );
    assert_eq!(
        problems("[caching]\nidentifying-fields = ['auto', 'X Y']"),
        "larder.toml:2: caching.identifying-fields: expected a field's name, * for anything, or \
         \"auto\", got \"X Y\""
    );
    assert_eq!(
        problems("[[rule]]\nname = 'a'\n[[rule]]\nname = 'b'\n[[rule]]\nname = 'a'"),
        "larder.toml:5: rule.name: expected another name than that of line 1"
    );
    assert_eq!(
        problems("[purge]\nsecret = 'a'\nsecret-file = 'b'"),
        "larder.toml:2: purge.secret: expected one of secret and secret-file, got both"
    );
    assert_eq!(
        problems("[purge]\nsecret = 123456"),
        "larder.toml:2: purge.secret: expected a secret, or \"none\", got a number without quotes"
    );
    assert_eq!(
        problems("[purge]\nsecret = 'two words'"),
        "larder.toml:2: purge.secret: expected visible ASCII characters without white space"
    );
    assert_eq!(
        problems("[purge]\nsecret-field = 'Cookie'"),
        "larder.toml:2: purge.secret-field: expected a separate field such as x-purge-secret, but \
         cookie has another meaning"
    );
    assert_eq!(
        problems("[store]\ncluster-size = '96K'"),
        "larder.toml:2: store.cluster-size: expected a power of two such as 64K"
    );
    // The preset's share counts where none is given.
    assert_eq!(
        problems("preset = 'tfs'\n[store]\ntier-hot = 11"),
        "larder.toml:3: store.tier-hot: expected tier-hot and tier-medium to be at most 100 \
         together, got 11 + 90"
    );
}

#[test]
fn a_reload_takes_over_what_can_change_and_names_the_rest() {
    let mut running = load("memory = '64M'\ndrain = '5s'", &[]);
    let new = load("memory = '32M'\ndrain = '9s'\n[[access]]\naction = 'deny'\nports = [25]", &[]);
    let changes = running.reload(&new);
    assert_eq!(changes.applied, ["drain", "access"]);
    assert_eq!(changes.waiting, ["memory"]);
    assert_eq!(running.config.client.drain, Duration::from_secs(9));
    assert_eq!(running.config.memory, 64 << 20);
    assert_eq!(running.config.access.len(), 1);
    // A setting that waits for a restart is reported again at the next reload; an applied one is
    // not.
    let waiting = vec!["memory"];
    assert_eq!(running.reload(&new), Changes { waiting, ..Changes::default() });
}

#[test]
fn purge_methods_and_fields_have_one_meaning() {
    assert_eq!(
        problems("[purge]\nmethods = ['GET=everything']"),
        "larder.toml:2: purge.methods: expected a method that no RFC defines, alone or with \
         =purge, =ban, =url, =tags or =everything, such as BAN=ban, got \"GET=everything\""
    );
    assert_eq!(
        problems("[purge]\nmethods = ['BAN', 'BAN=ban']"),
        "larder.toml:2: purge.methods: expected one meaning of BAN, got two"
    );
    assert_eq!(
        problems("[purge]\nfields = ['xkey=soft']"),
        "larder.toml:2: purge.fields: expected one meaning of xkey, got two (purge.tag-fields and \
         purge.tag-lists count)"
    );
}

#[test]
fn invalid_slot_settings_are_reported() {
    assert_eq!(
        problems("[store]\nslot-size = 600\npacket = '6K'"),
        "larder.toml:2: store.slot-size: expected 512, 1K, 2K or 4K"
    );
    assert_eq!(
        problems("[store]\npacket = '6K'"),
        "larder.toml:2: store.packet: expected a multiple of 4K such as 8K, or 0"
    );
    assert_eq!(
        problems("[store]\nslot-size = '4K'\nbuddy-threshold = '6K'"),
        "larder.toml:3: store.buddy-threshold: expected buddy-threshold (6144 bytes) to be a \
         multiple of slot-size (4096 bytes)"
    );
    load("[store]\nslot-size = '2K'\nbuddy-threshold = '6K'\npacket = 0", &[]);
}

#[test]
fn locality_buffers_in_clusters_are_refused() {
    let why = "expected layout \"stream\", \"buddy\" or \"unified\" with locality buffers: layout \
               \"cluster\" collects objects in store.batch";
    assert_eq!(
        problems("[store]\nlocality-buffers = 8"),
        format!("larder.toml:2: store.locality-buffers: {why}")
    );
    assert_eq!(
        problems("preset = 'markatos-lazy-reads-loc'\nlayout = 'cluster'"),
        format!("larder.toml:2: layout: {why}")
    );
    load("layout = 'stream'\n[store]\nlocality-buffers = 8", &[]);
    load("preset = 'markatos-lazy-reads-loc'", &[]);
}

#[test]
fn rules_are_checked_one_by_one() {
    for (text, expected) in [
        ("sites = ['x']", "larder.toml:2: rule.sites: there is no site \"x\""),
        ("paths = ['a']", "larder.toml:2: rule.paths: expected a path that begins with /, * or ~"),
        ("paths = ['~(']", "larder.toml:2: rule.paths: expected a regular expression after ~"),
        ("paths = ['~x{9999999}']", "larder.toml:2: rule.paths: expected a regular expression"),
        ("not-headers = ['a b']", "larder.toml:2: rule.not-headers: expected \"Name\""),
        ("not-sites = ['x']", "larder.toml:2: rule.sites: there is no site \"x\""),
        ("cookies = ['=1']", "larder.toml:2: rule.cookies: expected \"name\" or"),
        ("share = '101%'", "larder.toml:2: rule.share: expected a share from 0% to 100%"),
        ("any = [{ ttl = '1s' }]", "larder.toml:3: rule.any.ttl: ttl is a key of [[rule]], not of"),
        ("any = [{ query = ['='] }]", "larder.toml:2: rule.any: query: expected \"name\" or"),
        ("any = 'x'", "larder.toml:3: rule.any: expected [[rule.any]] tables, got"),
        ("then = 'go'", "larder.toml:3: rule.then: expected"),
        (
            "responses = [{ types = ['a/b'] }]",
            "larder.toml:2: rule.responses: entry of 1: expected",
        ),
        (
            "responses = [{ types = ['png'] }]",
            "larder.toml:2: rule.responses: types of 1: expected",
        ),
        (
            "responses = [{ statuses = ['304'], store = false }]",
            "larder.toml:2: rule.responses: statuses of 1: expected 200",
        ),
        (
            "responses = [{ larger-than = 9, smaller-than = 10, store = false }]",
            "larder.toml:2: rule.responses: smaller-than of 1: expected more",
        ),
        (
            "responses = [{ bypass = true }]",
            "larder.toml:3: rule.responses.bypass: bypass is a key",
        ),
        ("error-page = ['200 x']", "larder.toml:2: rule.error-page: expected the status or class"),
        ("error-page = ['404 204 x']", "larder.toml:2: rule.error-page: expected a status of a"),
        ("error-page = ['404 @/no/file']", "larder.toml:2: rule.error-page: /no/file: "),
        (
            "location-rewrite = ['http://a']",
            "larder.toml:2: rule.location-rewrite: expected two URLs",
        ),
        (
            "substitute = [{ from = 'a', to = '{path}' }]",
            "larder.toml:2: rule.substitute: expected no variables but",
        ),
        ("substitute = [{ from = 'a' }]", "larder.toml:3: rule.substitute.to: is missing"),
        ("stale-if = ['400']", "larder.toml:3: rule.stale-if: expected"),
        ("headers = ['a b']", "larder.toml:2: rule.headers: expected \"Name\""),
        ("request-set = ['Host: x']", "larder.toml:2: rule.request-set: host is not for rules"),
        ("answer-remove = ['Content-Length']", "larder.toml:2: rule.answer-remove: content-length"),
        ("min-ttl = '2s'\nmax-ttl = '1s'", "larder.toml:2: rule.min-ttl: expected no more than"),
        ("key-languages = ['en', 'de;q=1']", "larder.toml:2: rule.key-languages: expected a lang"),
        ("tll = '1s'", "larder.toml:3: rule.tll: there is no such key; did you mean rule.ttl?"),
        ("refresh-ahead = 95", "larder.toml:3: rule.refresh-ahead: expected a whole number"),
        ("store-max = 'big'", "larder.toml:3: rule.store-max: expected a size"),
        ("statuses = ['20x']", "larder.toml:3: rule.statuses: expected a class of statuses (2xx)"),
        ("statuses = []", "larder.toml:2: rule.statuses: expected at least one"),
        ("statuses = [206]", "larder.toml:3: rule.statuses: expected a class of statuses (2xx)"),
        (
            "statuses = ['206']",
            "larder.toml:2: rule.statuses: expected 200, which 206 is treated like",
        ),
        ("ttl = ['404']", "larder.toml:3: rule.ttl: expected a duration such as 30s, at most"),
        ("ttl = ['1m', '404 1s']", "larder.toml:2: rule.ttl: expected one duration, or each"),
    ] {
        let told = problems(&format!("\n[[rule]]\n{text}"));
        assert!(told.starts_with(expected), "{told}");
    }
}

#[test]
fn actions_of_rules_are_checked() {
    for (text, expected) in [
        ("redirect = '200 /x'", "redirect: expected a status 301, 302, 303, 307 or 308"),
        ("redirect = '/x'\nrespond = '200 x'", "redirect: expected either redirect or respond"),
        ("redirect = '{header.x}'", "redirect: "),
        ("respond = 'sorry'", "respond: expected a status and a text or @FILE"),
        ("respond = '204 x'", "respond: expected no text, which a 204 does not have"),
        ("respond = '200 @/no/file'", "respond: /no/file: "),
        ("remove-prefix = 'x'", "remove-prefix: expected a path that begins with /"),
        ("add-prefix = '/a b'", "add-prefix: expected a path that begins with /"),
        ("set-path = 'x'", "set-path: expected a path that begins with /"),
        ("set-query = 'a={nothing}'", "set-query: "),
        ("set-host = '{status}'", "set-host: "),
        ("upstream = ['{host}']", "upstream: expected allowed-hosts beside"),
        ("upstream = ['http://{host}']", "upstream: expected allowed-hosts beside"),
        (
            "upstream = ['http://{header.a}']\nallowed-hosts = ['a']",
            "upstream: {header.a} does not name a server",
        ),
        (
            "upstream = ['http://{host}', 'http://b']\nallowed-hosts = ['a']",
            "upstream: expected no other server beside \"http://{host}\"",
        ),
        (
            "upstream = ['http://{class.a}']\nallowed-hosts = ['a']",
            "request-set: there is no class \"a\"",
        ),
        ("upstream = ['nothing']", "upstream: there is no site"),
        ("upstream = ['ftp://a']", "upstream: expected an origin server"),
        ("allowed-hosts = ['a']", "allowed-hosts: expected upstream or follow-redirects"),
        ("try-files = ['/a']", "try-files: expected try-root beside it"),
        ("try-root = '/'\ntry-files = ['=404']", "try-files: a status has no effect here"),
        ("try-root = '/'\ntry-files = ['$uri']", "try-files: expected a path that begins"),
        ("try-root = '/'\ntry-files = ['/{path']", "try-files: "),
        ("credentials = 'secret'", "credentials: "),
        ("credentials = '@/no/file'", "credentials: /no/file: "),
        ("client-set = ['X-A: {nothing}']", "client-set: "),
        ("client-remove = ['Content-Length']", "client-remove: content-length"),
        ("request-set = ['X-A: {status}']", "request-set: "),
        ("answer-set = ['X-A']", "answer-set: "),
        ("request-remove = ['Host']", "request-remove: host is not for rules"),
        ("key-cookies = ['session*']", "key-cookies: expected the name of a cookie, got"),
        ("cookie-keep = ['a=b']", "cookie-keep: expected the name of a cookie, got"),
        ("cookie-remove = ['a; b']", "cookie-remove: expected the name of a cookie, got"),
        ("max-body = 'big'", "max-body: expected a size"),
        ("hide = ['server']", "hide: expected"),
        ("compress = ['lzma']", "compress: expected"),
    ] {
        let told = problems(&format!("reverse = 'http://a'\n[[rule]]\n{text}"));
        let key = told.split_once("rule.").map_or(&*told, |(_, rest)| rest);
        assert!(key.starts_with(expected), "{text}: {told}");
    }
}

#[test]
fn limits_and_passwords_of_rules_are_checked() {
    for (text, expected) in [
        ("limit-rate = '10'", "larder.toml:3: rule.limit-rate: expected requests in a time"),
        ("limit-by = 'ip'", "larder.toml:3: rule.limit-by: expected \"client\", \"site\""),
        ("limit-burst = 2", "larder.toml:2: rule.limit-burst: expected limit-rate beside it"),
        (
            "limit-rate = '1/s'\nlimit-queue = 2",
            "larder.toml:2: rule.limit-queue: expected at most limit-burst (0)",
        ),
        ("limit-bandwidth-after = '1M'", "larder.toml:2: rule.limit-bandwidth-after: expected"),
        ("limit-by = 'rule'", "larder.toml:2: rule.limit-by: expected limit-rate, limit-conc"),
        ("limit-concurrent = 1\nlimit-by = 'request'", "larder.toml:2: rule.limit-by: \"request\""),
        ("limit-bandwidth = '1M'\nlimit-status = 503", "larder.toml:2: rule.limit-status: expec"),
        ("limit-bandwidth = '1M'\nlimit-dry-run = true", "larder.toml:2: rule.limit-dry-run: e"),
        ("realm = 'x'", "larder.toml:2: rule.realm: expected basic-auth beside it"),
        ("basic-auth = '@/none'", "larder.toml:2: rule.basic-auth: /none: No such file"),
        ("default-ttl = ['404 1m', '404 1s']", "larder.toml:2: rule.default-ttl: expected each"),
    ] {
        let told = problems(&format!("\n[[rule]]\n{text}"));
        assert!(told.starts_with(expected), "{told}");
    }
}

#[test]
fn rules_name_sites_and_change_at_a_reload() {
    let text = "reverse = 'http://a'\n[[site]]\nhosts = ['b']\nupstream = 'http://b'\n";
    let with = format!("{text}[[rule]]\nsites = ['default', 'b']\nttl = '1s'\n");
    let mut loaded = load(text, &[]);
    let changes = loaded.reload(&load(&with, &[]));
    assert_eq!((changes.applied, changes.waiting), (vec!["rule"], vec![]));
    let rule =
        loaded.config.rules[0].to_proxy(1, &loaded.config.semantics, &Classes::default()).unwrap();
    assert_eq!(rule.settings.lifetimes.fixed, Some(Lifetime::Same(Seconds::new(1))));
}

#[test]
fn sites_change_at_a_reload() {
    let site = |host: &str, port: u16| {
        format!("[[site]]\nhosts = ['{host}']\nupstream = 'http://a:{port}'\n")
    };
    let mut loaded = load(&(site("one", 1) + &site("two", 1) + &site("three", 1)), &[]);
    let changes = loaded.reload(&load(&(site("four", 1) + &site("two", 2) + &site("one", 1)), &[]));
    assert_eq!((&*changes.applied, &*changes.waiting), (&["site"][..], &[][..]));
    assert_eq!(changes.sites.to_string(), "added four; changed two; removed three");
    let hosts: Vec<_> = loaded.config.sites.iter().map(|site| &*site.hosts[0]).collect();
    assert_eq!(hosts, ["four", "two", "one"]);
    let changes = loaded.reload(&load(&(site("one", 1) + &site("two", 2) + &site("four", 1)), &[]));
    assert_eq!(changes.sites.to_string(), "in another order");
    let changes = loaded.reload(&load("reverse = 'http://a'", &[]));
    assert_eq!(changes.applied, ["reverse", "site"]);
    assert!(loaded.config.is_reverse() && loaded.config.sites.is_empty());
    assert_eq!(loaded.reload(&load("", &[])).applied, ["reverse"]);
    assert!(!loaded.config.is_reverse());
}

#[test]
fn listeners_have_tables_with_settings() {
    let text = "
        [[listener]]
        address = '[::]:443'
        tls = true
        [[listener]]
        address = 'unix:/run/x'
        group = 'none'
        [[certificate]]
        chain = '/x.pem'
        hosts = ['*.A.example']
    ";
    let file = File::parse("larder.toml", text).unwrap();
    let config = Loaded::build(&file, &Layer::new()).unwrap().config;
    assert!(config.listen.is_empty(), "no default besides tables");
    let all = config.all_listeners();
    assert!(all[0].tls && !all[1].tls && all[1].mode == "660");
    assert_eq!(config.certificates[0].hosts, ["*.a.example"]);
    assert!(config.certificates[0].key.is_none());
    let config = |text: &str| {
        let file = File::parse("larder.toml", text).unwrap();
        Loaded::build(&file, &Layer::new()).expect_err("refused").to_string()
    };
    for (text, expected) in [
        ("[[listener]]\naddress = '[::]:443'\ntls = true", "1: listener.tls: TLS needs a"),
        ("[[listener]]\naddress = '[::]:443'\ngroup = 'x'", "1: listener.group: only a Unix"),
        (
            "listen = '[::]:443'\n[[listener]]\naddress = '[::]:443'",
            "2: listener.address: [::]:443 is",
        ),
        (
            "[[listener]]\naddress = '[::]:443'\ntls = true\nh2c = true\n\
             [[certificate]]\nchain='x'",
            "1: listener.h2c: expected tls or h2c",
        ),
    ] {
        let why = config(text);
        assert!(why.contains(expected), "{why}");
    }
}
