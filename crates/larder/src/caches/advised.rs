//! Tests that the output of `larder-lab advise` is a valid server configuration with the advised
//! meaning.

use lab::advise::advice::config_file;
use lab::advise::log_replay::{Setup, System};
use store::LayoutName;
use store::policy::{AdmissionName, PolicyName};

use crate::caches::store_options;
use crate::config::configuration::Config;
use crate::config::file::File;
use crate::config::layers::Layer;
use crate::config::loaded::Loaded;

const M: u64 = 1 << 20;

fn config(text: &str) -> Config {
    let file = File::parse("larder.toml", text).unwrap_or_else(|problems| panic!("{problems}"));
    let loaded = Loaded::build(&file, &Layer::new());
    loaded.unwrap_or_else(|problems| panic!("{problems}")).config
}

fn check(layout: LayoutName, policy: Option<PolicyName>, mean_object: Option<u32>) {
    for admission in [None, Some(AdmissionName::SecondHit)] {
        let setup = Setup::new(System::Layout(layout), 192 * M, 96 * M);
        let config = config(&config_file(&Setup { policy, admission, mean_object, ..setup }));
        assert_eq!((config.memory, config.cache_size), (192 * M, Some(96 * M)));
        let format = config.format_options();
        assert_eq!((format.layout, format.mean_object), (layout, mean_object));
        let options = store_options::options(&config, &[]);
        let policy = policy.filter(|_| layout != LayoutName::Cluster);
        assert_eq!(options.policy, policy.unwrap_or(PolicyName::Lru));
        assert_eq!(options.admission, admission.unwrap_or(AdmissionName::All));
    }
}

#[test]
fn every_advice_is_a_configuration_that_means_it() {
    for layout in LayoutName::ALL {
        for policy in [None, Some(PolicyName::WTinyLfu)] {
            for mean_object in [None, Some(512), Some(256 << 10)] {
                check(layout, policy, mean_object);
            }
        }
    }
}
