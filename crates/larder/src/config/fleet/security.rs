//! Mutual authentication of nodes: the shared key, or certificates.

use std::path::Path;
use std::time::SystemTime;

use fleet::{FleetSeed, KeyHash};
use net::certificate::Certificate;
use net::fleet_key::FleetKey;
use net::fleet_tls::FleetTls;

use super::FleetConfig;

/// The result of reading the fleet's secrets.
pub struct Security {
    /// The key that seals gossip; `None`: gossip is not sealed.
    pub gossip_key: Option<[u8; 32]>,
    /// TLS between nodes; `None`: nodes are not authenticated.
    pub tls: Option<FleetTls>,
    /// The seed for placing documents on the nodes. Without a key it is derived from the fleet's
    /// name, so strangers may know it.
    pub seed: FleetSeed,
    /// Warnings about files.
    pub warnings: Vec<String>,
}

impl Security {
    /// Reads the files. The error is a sentence that begins with the key.
    pub fn read(config: &FleetConfig) -> Result<Security, String> {
        let named = |key: &'static str| move |why: String| format!("{key}: {why}");
        let key = config.key_file.as_deref().map(FleetKey::read).transpose();
        let key = key.map_err(named("fleet.key-file"))?;
        let warning = key.as_ref().and_then(FleetKey::warning);
        let mut warnings: Vec<String> =
            warning.map(|text| format!("fleet.key-file: {text}")).into_iter().collect();
        let tls = match (&config.certificate, &config.ca, &key) {
            (Some(chain), Some(ca), _) => {
                let private = config.private_key.as_deref().unwrap_or(chain);
                let own = certificate(chain, private).map_err(named("fleet.certificate"))?;
                warnings.extend(own.warning(SystemTime::now()));
                Some(FleetTls::of_certificates(&own, ca).map_err(named("fleet.certificate"))?)
            }
            (_, _, Some(key)) => Some(FleetTls::of_key(key).map_err(named("fleet.key-file"))?),
            (_, _, None) => None,
        };
        let by_name = || KeyHash::of(config.name.as_bytes(), FleetSeed(0)).bits();
        let seed = FleetSeed(key.as_ref().map_or_else(by_name, FleetKey::placement_seed));
        let gossip_key = key.as_ref().map(FleetKey::gossip_key);
        Ok(Security { gossip_key, tls, seed, warnings })
    }
}

/// Reads a node's certificate, which need not name any host.
fn certificate(chain: &Path, private: &Path) -> Result<Certificate, String> {
    Certificate::load(chain, private, &["this node".to_owned()])
}
