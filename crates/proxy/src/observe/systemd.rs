//! Messages to the service manager (the `sd_notify` protocol): ready, reloading, stopping, and a
//! status line.
//!
//! They are dropped if there is no `NOTIFY_SOCKET`. A message that cannot be sent is logged and
//! does not stop the process.

use sd_notify::NotifyState;

/// Reports that the process is serving: its ports are open.
pub fn ready() {
    send(&[NotifyState::Ready]);
}

/// Reports that the configuration is being reloaded; [`ready`] ends this state.
pub fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => send(&[NotifyState::Reloading, now]),
        Err(error) => log::debug!("the clock cannot be read for the service manager: {error}"),
    }
}

/// Reports that the process is draining and will exit.
pub fn stopping() {
    send(&[NotifyState::Stopping]);
}

/// Reports that another process is the service's main process from now on.
pub fn main_pid(pid: u32) {
    send(&[NotifyState::MainPid(pid)]);
}

/// Sends a line for `systemctl status`, such as recovery progress. Line feeds become spaces.
pub fn status(line: &str) {
    send(&[NotifyState::Status(&line.replace(['\n', '\r'], " "))]);
}

/// Asks for `seconds` more until the next message, for a slow start or stop.
pub fn extend_timeout(seconds: u32) {
    send(&[NotifyState::ExtendTimeoutUsec(seconds.saturating_mul(1_000_000))]);
}

fn send(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        log::debug!("the service manager cannot be notified: {error}");
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::os::unix::net::UnixDatagram;
    use std::process::Command;
    use std::time::Duration;

    use super::*;

    /// Tests the messages in a child process, because the environment belongs to the whole process.
    #[test]
    fn messages_reach_the_service_manager() {
        if std::env::var_os("LARDER_TEST_SPEAKS").is_some() {
            status("recovering:\n7 of 10");
            extend_timeout(30);
            ready();
            reloading();
            stopping();
            main_pid(7);
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        manager.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "observe::systemd::tests::messages_reach_the_service_manager"])
            .env("LARDER_TEST_SPEAKS", "1")
            .env("NOTIFY_SOCKET", &path)
            .output()
            .unwrap();
        assert!(child.status.success(), "{child:?}");
        let heard = || {
            let mut buffer = [0; 256];
            let n = manager.recv(&mut buffer).unwrap();
            String::from_utf8(buffer[..n].to_vec()).unwrap()
        };
        assert_eq!(heard(), "STATUS=recovering: 7 of 10\n");
        assert_eq!(heard(), "EXTEND_TIMEOUT_USEC=30000000\n");
        assert_eq!(heard(), "READY=1\n");
        let reloading = heard();
        assert!(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="), "{reloading}");
        assert_eq!(heard(), "STOPPING=1\n");
        assert_eq!(heard(), "MAINPID=7\n");
    }
}
