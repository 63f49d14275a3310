#![allow(missing_docs, clippy::unwrap_used)]
use device::{AnyDevice, MemoryDevice};
use proxy::access::{self, Access};
use proxy::address::Locals;
use proxy::options::{Front, Options, Site};
use proxy::{CacheSetup, Control, Setup, Unobserved};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::Arc;
fn main() {
    let workers: usize = std::env::args().nth(1).unwrap().parse().unwrap();
    let origin = TcpListener::bind("127.0.0.1:0").unwrap();
    let up = origin.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut s in origin.incoming().flatten() {
            std::thread::spawn(move || {
                let body = "x".repeat(3072);
                let mut buf = [0u8; 4096];
                let mut got = 0;
                loop {
                    let n = s.read(&mut buf[got..]).unwrap_or(0);
                    if n == 0 {
                        return;
                    }
                    got += n;
                    if buf[..got].windows(4).any(|w| w == b"\r\n\r\n") {
                        let nostore = buf[..got].windows(8).any(|w| w == b"/nostore");
                        got = 0;
                        let cc = if nostore { "no-store" } else { "max-age=3600" };
                        let r = format!(
                            "HTTP/1.1 200 OK\r\nServer: t\r\nDate: Sat, 21 Nov 2026 08:00:00 GMT\r\nContent-Type: text/html\r\nETag: \"abc\"\r\nLast-Modified: Sat, 21 Nov 2025 08:00:00 GMT\r\nCache-Control: {cc}\r\nAccept-Ranges: bytes\r\nContent-Length: 3072\r\n\r\n{body}"
                        );
                        let _ = s.write_all(r.as_bytes());
                    }
                }
            });
        }
    });
    let site = Site {
        name: "main".into(),
        hosts: vec![],
        upstream_host: "127.0.0.1".into(),
        upstream_port: up.port(),
        pass_host: true,
    };
    let access = Access::new(access::Front::Reverse, Locals::of_this_machine().unwrap());
    let options = Options::new(Front::Reverse(vec![site]), Arc::new(access));
    let device = MemoryDevice::new(256 << 20, 4096);
    let rt = tokio::runtime::Builder::new_current_thread().build().unwrap();
    rt.block_on(store::format(&device, &store::FormatOptions::default(), [7; 48], 1_700_000_000))
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:8099").unwrap();
    println!("{}", std::process::id());
    proxy::run(Setup {
        control: Control::new(options),
        listeners: vec![listener],
        workers,
        observer: Arc::new(Unobserved),
        cache: Some(CacheSetup {
            devices: Box::new(move |_| Ok(vec![Rc::new(AnyDevice::Memory(device.clone()))])),
            options: store::Options { memory: 64 << 20, ..Default::default() },
            opened: Box::new(|_| ()),
        }),
        admin: None,
    })
    .unwrap();
}
