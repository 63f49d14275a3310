//! Limits and user of the process.

use std::ffi::CString;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::unistd::{Uid, User, initgroups, setgid, setuid};

/// Raises the soft limit of open files to the hard limit. Returns the limit in force, and an error
/// message if the change was refused.
pub fn raise_descriptor_limit() -> (u64, Option<String>) {
    let (soft, hard) = match getrlimit(Resource::RLIMIT_NOFILE) {
        Ok(limits) => limits,
        Err(error) => return (1024, Some(format!("cannot read the limit of open files: {error}"))),
    };
    match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => (hard, None),
        Err(error) => {
            let why =
                format!("cannot raise the limit of open files from {soft} to {hard}: {error}");
            (soft, Some(why))
        }
    }
}

/// The user to switch to, looked up before anything is opened so that a wrong name has no effect.
#[derive(Debug)]
pub enum Identity {
    /// Not started as root: keep the user.
    Unprivileged,
    /// Started as root, and no user is configured.
    Root,
    /// Switch to this user once everything is open.
    Become(User),
}

pub fn user(name: &str) -> Result<User, String> {
    User::from_name(name)
        .map_err(|error| format!("user {name:?} cannot be looked up: {error}"))?
        .ok_or_else(|| format!("no user {name:?} on this machine"))
}

/// Returns the user that this process switches to, given the name in the configuration.
pub fn identity(name: Option<&str>) -> Result<Identity, String> {
    let is_root = Uid::effective().is_root();
    match name {
        None if is_root => Ok(Identity::Root),
        None => Ok(Identity::Unprivileged),
        Some(name) => {
            let user = user(name)?;
            match (is_root, user.uid == Uid::effective()) {
                (_, true) if is_root => Ok(Identity::Root),
                (_, true) => Ok(Identity::Unprivileged),
                (true, false) => Ok(Identity::Become(user)),
                (false, false) => Err(format!("only root can become user {name:?}")),
            }
        }
    }
}

/// Switches to the user irrevocably, for all threads: supplementary groups, group, user.
pub fn become_user(user: &User) -> Result<(), String> {
    let name = &user.name;
    let failed = |what: &str, error: nix::Error| {
        format!("cannot become user {name:?}: {what} refused: {error}")
    };
    let c_name = CString::new(name.as_str()).map_err(|_| format!("user {name:?} has a NUL"))?;
    initgroups(&c_name, user.gid).map_err(|error| failed("its groups", error))?;
    setgid(user.gid).map_err(|error| failed("its group", error))?;
    setuid(user.uid).map_err(|error| failed("the change of user", error))?;
    // Check that the process cannot become root again, otherwise the switch is useless.
    match setuid(Uid::from_raw(0)) {
        Err(_) => Ok(()),
        Ok(()) => Err(format!("became user {name:?}, but could become root again")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_of_open_files_becomes_the_hard_one() {
        let (limit, refused) = raise_descriptor_limit();
        assert_eq!(refused, None);
        assert_eq!(getrlimit(Resource::RLIMIT_NOFILE).unwrap(), (limit, limit));
    }

    #[test]
    fn users() {
        let why = identity(Some("no-such-user-here")).expect_err("no such user");
        assert_eq!(why, r#"no user "no-such-user-here" on this machine"#);
        let me = User::from_uid(Uid::effective()).unwrap();
        if let Some(me) = me {
            assert!(!matches!(identity(Some(&me.name)), Ok(Identity::Become(_)) | Err(_)));
        }
        match identity(Some("nobody")) {
            Ok(Identity::Become(user)) => assert_eq!(user.name, "nobody"),
            Ok(other) => panic!("{other:?}"),
            Err(why) => assert!(!Uid::effective().is_root(), "{why}"),
        }
    }
}
