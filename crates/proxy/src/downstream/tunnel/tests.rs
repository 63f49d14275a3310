//! Tests over real sockets, and in memory where time matters.

#![allow(clippy::unwrap_used)]

use std::future::pending;
use std::time::Duration;

use tokio::io::{AsyncReadExt, duplex};
use tokio::net::{TcpListener, TcpStream};

use super::*;

const LONG: Duration = Duration::from_secs(3600);

/// Returns a lifetime with only an idle limit.
fn life(idle: Duration) -> Lifetime {
    Lifetime { idle, longest: None }
}

fn clock() -> TokioClock {
    TokioClock::system()
}

/// Returns both ends of a connection over loopback.
async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (near, listener.accept().await.unwrap().0)
}

#[tokio::test]
async fn bytes_flow_both_ways_and_each_side_may_end_first() {
    let ((mut client, inner), (outer, mut server)) = (pair().await, pair().await);
    let early = Bytes::from_static(b"hello ");
    let ended =
        tokio::join!(join(inner, early, outer, life(LONG), clock(), pending(), |_| ()), async {
            client.write_all(b"upstream").await.unwrap();
            // The client sends no more, but still reads.
            client.shutdown().await.unwrap();
            let mut heard = String::new();
            server.read_to_string(&mut heard).await.unwrap();
            assert_eq!(heard, "hello upstream");
            let answer = vec![7; 1 << 20];
            tokio::join!(
                async {
                    server.write_all(&answer).await.unwrap();
                    server.shutdown().await.unwrap();
                },
                async {
                    let mut heard = Vec::new();
                    client.read_to_end(&mut heard).await.unwrap();
                    assert_eq!(heard, answer);
                }
            );
        })
        .0;
    assert!(matches!(ended.how, End::Closed), "{ended:?}");
    assert_eq!((ended.sent, ended.received), (14, 1 << 20));
}

#[tokio::test]
async fn a_cut_ends_both_sides_and_keeps_the_byte_counts() {
    let ((mut client, inner), (outer, mut server)) = (pair().await, pair().await);
    let (cut, to_cut) = tokio::sync::oneshot::channel::<()>();
    let cut_signal = async {
        to_cut.await.unwrap();
        End::Cut
    };
    let ended = tokio::join!(
        join(inner, Bytes::new(), outer, life(LONG), clock(), cut_signal, |_| ()),
        async {
            client.write_all(b"abc").await.unwrap();
            server.read_exact(&mut [0; 3]).await.unwrap();
            server.write_all(b"defg").await.unwrap();
            client.read_exact(&mut [0; 4]).await.unwrap();
            cut.send(()).unwrap();
            assert_eq!(client.read(&mut [0]).await.unwrap_or(0), 0);
            assert_eq!(server.read(&mut [0]).await.unwrap_or(0), 0);
        }
    )
    .0;
    assert!(matches!(ended.how, End::Cut), "{ended:?}");
    assert_eq!((ended.sent, ended.received), (3, 4));
}

#[tokio::test]
async fn a_broken_upstream_ends_the_tunnel() {
    let ((mut client, inner), (outer, server)) = (pair().await, pair().await);
    // Closing with a linger time of zero resets the connection.
    server.set_zero_linger().unwrap();
    drop(server);
    let ended = tokio::join!(
        join(inner, Bytes::new(), outer, life(LONG), clock(), pending(), |_| ()),
        async {
            assert_eq!(client.read(&mut [0]).await.unwrap_or(0), 0);
        }
    )
    .0;
    assert!(matches!(ended.how, End::Broken(_)), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn silence_ends_a_tunnel_and_any_byte_keeps_it_open() {
    let idle = Duration::from_secs(60);
    let (mut client, inner) = duplex(64);
    let (outer, mut server) = duplex(64);
    let began = clock().instant();
    let ended = tokio::join!(
        join(inner, Bytes::new(), outer, life(idle), clock(), pending(), |_| ()),
        async {
            for _ in 0..3 {
                tokio::time::sleep(Duration::from_secs(50)).await;
                client.write_all(b"x").await.unwrap();
                server.read_exact(&mut [0]).await.unwrap();
                tokio::time::sleep(Duration::from_secs(50)).await;
                server.write_all(b"yz").await.unwrap();
                client.read_exact(&mut [0; 2]).await.unwrap();
            }
            // Both sides stay open: only the idle limit ends the tunnel.
            assert_eq!(client.read(&mut [0]).await.unwrap(), 0);
            assert_eq!(server.read(&mut [0]).await.unwrap(), 0);
        }
    )
    .0;
    assert!(matches!(ended.how, End::Idle), "{ended:?}");
    assert_eq!((ended.sent, ended.received), (3, 6));
    // Virtual time: the last byte arrived at 300 s.
    assert_eq!(clock().since(began).as_secs(), 360);
}

#[tokio::test(start_paused = true)]
async fn a_side_that_accepts_no_bytes_counts_as_silent() {
    let (mut client, inner) = duplex(64);
    let (outer, server) = duplex(64);
    let idle = Duration::from_secs(60);
    let ended = tokio::join!(
        join(inner, Bytes::new(), outer, life(idle), clock(), pending(), |_| ()),
        async { while client.write_all(&[0; 1024]).await.is_ok() {} }
    )
    .0;
    assert!(matches!(ended.how, End::Idle), "{ended:?}");
    assert_eq!(ended.sent, 64);
    drop(server);
}
