//! Lookup of users and groups in programs that are linked statically.

/// Makes lookups of users and groups read `/etc/passwd` and `/etc/group` alone. The other modules
/// of nsswitch.conf are shared libraries, which crash a statically linked program.
#[cfg(all(target_feature = "crt-static", target_env = "gnu"))]
#[allow(unsafe_code)]
pub fn look_up_in_files_only() {
    use std::ffi::{c_char, c_int};

    unsafe extern "C" {
        fn __nss_configure_lookup(database: *const c_char, modules: *const c_char) -> c_int;
    }
    for database in [c"passwd", c"group", c"initgroups"] {
        // SAFETY: both arguments are constant strings that end with a NUL.
        unsafe { __nss_configure_lookup(database.as_ptr(), c"files".as_ptr()) };
    }
}

/// Does nothing: the system's modules can be loaded.
#[cfg(not(all(target_feature = "crt-static", target_env = "gnu")))]
pub fn look_up_in_files_only() {}
