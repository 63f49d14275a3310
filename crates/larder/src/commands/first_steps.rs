//! Suggestions of `larder serve` once it serves clients.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use proxy::observe::front_kind::FrontKind;

use crate::commands::demo;
use crate::process::listen_sockets::Bound;

/// Suggestions for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FirstSteps {
    /// Commands, for standard output.
    Demo(String),
    /// A line of the log.
    Hint(String),
    /// No listener is at an IP address.
    None,
}

/// Returns what to try with these addresses.
pub fn first_steps(
    front: FrontKind,
    bound: &[Bound],
    admin: Option<&Bound>,
    is_demo: bool,
) -> FirstSteps {
    let listener = bound.iter().find_map(Bound::client_address);
    let admin = admin.and_then(|bound| bound.address().ip());
    match (listener, admin) {
        (Some((proxy, _)), Some(admin)) if is_demo => {
            FirstSteps::Demo(demo::lines(&url(proxy, false), &url(admin, false)))
        }
        (Some((address, is_tls)), admin) => {
            FirstSteps::Hint(hint(front, &url(address, is_tls), admin))
        }
        (None, _) => FirstSteps::None,
    }
}

fn hint(front: FrontKind, proxy: &str, admin: Option<SocketAddr>) -> String {
    let request = match front {
        FrontKind::Forward => format!("curl -I -x {proxy} http://example.com/"),
        FrontKind::Reverse => format!("curl -I {proxy}/"),
    };
    let page = admin.map(|admin| format!("; watch it live at {}/live", url(admin, false)));
    format!("try: {request} twice, Cache-Status says what was a hit{}", page.unwrap_or_default())
}

/// Returns the URL of an address as this machine reaches it.
fn url(mut address: SocketAddr, is_tls: bool) -> String {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    format!("http{}://{address}", if is_tls { "s" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_name_addresses_that_this_machine_reaches() {
        let admin = Some("127.0.0.1:3129".parse().unwrap());
        let proxy = url("[::]:80".parse().unwrap(), true);
        assert_eq!(
            hint(FrontKind::Reverse, &proxy, admin),
            "try: curl -I https://[::1]:80/ twice, Cache-Status says what was a hit; \
             watch it live at http://127.0.0.1:3129/live"
        );
        let proxy = url("0.0.0.0:3128".parse().unwrap(), false);
        assert_eq!(
            hint(FrontKind::Forward, &proxy, None),
            "try: curl -I -x http://127.0.0.1:3128 http://example.com/ twice, Cache-Status says \
             what was a hit"
        );
    }
}
