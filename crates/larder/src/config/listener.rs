//! Listeners and certificates: the settings that apply before a client's first request.

use std::path::PathBuf;

use ipnet::IpNet;

use crate::config::listen_addr::ListenAddr;

#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Listener {
    /// `None` only in a table that is refused.
    pub address: Option<ListenAddr>,
    pub tls: bool,
    pub h2c: bool,
    pub proxy_protocol: Vec<IpNet>,
    pub mode: String,
    pub owner: Option<String>,
    pub group: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Certificate {
    pub chain: PathBuf,
    pub key: Option<PathBuf>,
    pub hosts: Vec<String>,
}
