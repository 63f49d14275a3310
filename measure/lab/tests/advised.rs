//! The output of `larder-lab advise` is a configuration that the server accepts.

#![allow(clippy::unwrap_used, missing_docs)]

use std::fs;
use std::process::Command;

use lab::advise::advice::config_file;
use lab::advise::log_replay::{Setup, System};
use store::LayoutName;
use store::policy::{AdmissionName, PolicyName};
use testkit::program;

const M: u64 = 1 << 20;

fn check(layout: LayoutName, policy: Option<PolicyName>, mean_object: Option<u32>) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("larder.toml");
    for admission in [None, Some(AdmissionName::SecondHit)] {
        let setup = Setup::new(System::Layout(layout), 192 * M, 96 * M);
        let text = config_file(&Setup { policy, admission, mean_object, ..setup });
        fs::write(&file, &text).unwrap();
        let mut command = Command::new(program::built("larder"));
        let checked = command.arg("check-config").arg(&file).current_dir(&directory).output();
        let checked = checked.unwrap();
        let said = String::from_utf8_lossy(&checked.stderr);
        assert!(checked.status.success(), "{text}{said}");
    }
}

#[test]
fn every_advice_is_a_configuration_that_the_server_accepts() {
    for layout in LayoutName::ALL {
        for policy in [None, Some(PolicyName::WTinyLfu)] {
            for mean_object in [None, Some(512), Some(256 << 10)] {
                check(layout, policy, mean_object);
            }
        }
    }
}
