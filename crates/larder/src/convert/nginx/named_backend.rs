//! `proxy_pass` whose variables name the server, as an `upstream` within `allowed-hosts`.

use proxy::rules::access::HostPattern;
use proxy::rules::request_rules::ServerTemplate;

use crate::convert::nginx::backend::Upstreams;
use crate::convert::nginx::matching::{Kind, Location};
use crate::convert::nginx::scope::Scope;
use crate::convert::nginx::syntax::Directive;
use crate::convert::output::{Output, list, text};
use crate::convert::rule_draft::RuleDraft;

/// A host that does not exist, in place of hosts that the configuration does not list.
const NO_HOST: &str = "not-listed.invalid";

/// Server that requests name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedBackend {
    /// Value of `upstream`, such as `https://{capture.1}`.
    pub upstream: String,
    /// The class whose empty value stands for another text, and that text.
    otherwise: Option<(String, String)>,
    /// Hosts that the variables can name, if the configuration lists them.
    hosts: Option<Vec<String>>,
}

impl NamedBackend {
    /// Reads a target without a path; `None`, with a loss, where it has no equivalent.
    pub fn new(
        target: &str,
        pass: &Directive,
        scope: &Scope<'_>,
        upstreams: &Upstreams<'_>,
        out: &mut Output,
    ) -> Option<NamedBackend> {
        let class = |name: &str| Some(scope.partial(name)?.variable());
        let other = |name: &str| scope.partial(name)?.otherwise().cloned();
        let made = server(target, scope, &class);
        let (upstream, other) =
            match made.and_then(|made| Ok((made, server(target, scope, &other)?))) {
                Ok(both) => both,
                Err(why) => {
                    out.lose(&pass.at, "proxy_pass", &why);
                    return None;
                }
            };
        let name = variable(target).and_then(|(_, name, _)| Some(scope.partial(name)?.name()));
        let otherwise = name.map(|name| (name.to_owned(), other.clone()));
        if otherwise.is_none() && other != upstream {
            out.lose(&pass.at, "proxy_pass", "several such variables have no equivalent");
            return None;
        }
        let hosts = hosts_of_class(target, scope);
        let is_group = |host: &String| upstreams.contains_key(host.as_str());
        if hosts.iter().flatten().any(is_group) {
            out.lose(&pass.at, "proxy_pass", "a variable cannot choose among upstream blocks");
            return None;
        }
        if target.contains("$http_host") {
            let reason = "the port in Host is left out: the one of the scheme is asked";
            out.note(&pass.at, "proxy_pass", reason);
        }
        Some(NamedBackend { upstream, otherwise, hosts })
    }

    /// Returns the class and the server for requests for which the class is empty.
    pub fn otherwise(&self) -> Option<(&str, NamedBackend)> {
        let (class, upstream) = self.otherwise.as_ref()?;
        Some((class, NamedBackend { upstream: upstream.clone(), ..NamedBackend::default() }))
    }

    /// Returns whether parts of the path name the server.
    pub fn has_captures(&self) -> bool {
        self.upstream.contains("{capture.")
    }

    /// Adds `upstream` and `allowed-hosts`. `names` are the hosts of the server block.
    pub fn write(&self, at: &Directive, names: &[String], rule: &mut RuleDraft, out: &mut Output) {
        rule.set("upstream", list(&[&self.upstream]));
        let server = self.upstream.split_once("://").map_or("", |(_, server)| server);
        let has_only_host = server == "{host}" || server.starts_with("{host}:");
        let mut allowed = match &self.hosts {
            Some(hosts) => hosts.clone(),
            None if has_only_host => names.to_vec(),
            None => Vec::new(),
        };
        let count = allowed.len();
        allowed.retain(|host| host.parse::<HostPattern>().is_ok());
        if allowed.len() < count {
            let reason = "a server that a variable names must have a host name, not an address";
            out.lose(&at.at, "proxy_pass", reason);
        }
        if allowed.is_empty() {
            let reason = "nginx asks any host that a request names: list those that it may ask in \
                          allowed-hosts, until then it gets 403";
            out.lose_once(&at.at, "proxy_pass", reason);
            allowed.push(NO_HOST.to_owned());
        }
        rule.set("allowed-hosts", list(&allowed));
    }
}

/// Lets requests to a location name the server. `hosts` are those of the server block.
pub fn name_server(
    named: &NamedBackend,
    one: &Location<'_>,
    hosts: &[String],
    rule: &mut RuleDraft,
    out: &mut Output,
) {
    // Other expressions would have other groups.
    let others = ["if", "rewrite"];
    let mut inner = one.directive.inner().iter();
    let is_own = one.kind == Kind::Regex
        && one.any.is_empty()
        && !inner.any(|one| others.contains(&one.name.as_str()));
    if named.has_captures() && !is_own {
        let reason = "groups of another expression name the server: answered with 501";
        out.lose(&one.directive.at, "proxy_pass", reason);
        return rule.set("respond", text("501 Not converted: proxy_pass"));
    }
    named.write(one.directive, hosts, rule, out);
}

/// Writes the rule for requests for which the class that names the server is empty.
pub fn otherwise(
    (one, named): (&Location<'_>, Option<&NamedBackend>),
    hosts: &[String],
    rule: &mut RuleDraft,
    out: &mut Output,
) {
    let named = named.filter(|_| rule.has("upstream"));
    let Some((class, named)) = named.and_then(NamedBackend::otherwise) else { return };
    if rule.when.get("classes").is_some() {
        out.lose(&one.directive.at, "proxy_pass", "too many classes: answered with 501");
        return rule.set("respond", text("501 Not converted: proxy_pass"));
    }
    let mut other = rule.clone();
    other.name.push_str(" otherwise");
    other.when.add("classes", [format!("{class}=")]);
    name_server(&named, one, hosts, &mut other, out);
    other.push(out);
}

/// Returns a target as a text that names a server. The error is a sentence.
fn server(
    target: &str,
    scope: &Scope<'_>,
    own: &dyn Fn(&str) -> Option<String>,
) -> Result<String, String> {
    let made = scope.template_with(target, "", own);
    let made = made.ok_or("a variable of the target has no equivalent")?;
    let checked = ServerTemplate::parse(&made).map(|_| made);
    checked.map_err(|why| format!("its variables cannot name a server: {why}"))
}

/// Splits a target with one variable: the host before it, its name, what follows.
pub fn variable(target: &str) -> Option<(&str, &str, &str)> {
    let (_, authority) = target.split_once("://")?;
    let (before, rest) = authority.split_once('$')?;
    let (name, after) = match rest.strip_prefix('{') {
        Some(rest) => rest.split_once('}')?,
        None => {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            rest.split_at(end.unwrap_or(rest.len()))
        }
    };
    (!after.contains('$')).then_some((before, name, after))
}

/// Returns the hosts of a target whose only variable has become a class.
fn hosts_of_class(target: &str, scope: &Scope<'_>) -> Option<Vec<String>> {
    let (before, name, after) = variable(target)?;
    let values = scope.class_values(name)?;
    let host = |value: &String| {
        let whole = format!("{before}{value}{after}");
        let is_port = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        match whole.rsplit_once(':') {
            Some((host, port)) if is_port(port) => host.to_owned(),
            _ => whole,
        }
    };
    let mut hosts: Vec<String> = values.iter().filter(|one| !one.is_empty()).map(host).collect();
    hosts.sort();
    hosts.dedup();
    Some(hosts)
}
